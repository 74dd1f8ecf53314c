"""Programs on nested tensors, and the forms in which each takes them: data for tests and pages.

`x` has three components of 2, 1 and 3 rows and 4 columns, float64. A program stands beside the
same for one component, `c`; the tests hold each other against it, with derivatives.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FORMS", "PROGRAMS", "TAKEN", "batch", "run", "run_component"]

# Rows one behind the other; with rows between them that belong to none; rows as last dimension;
# components of which each has its own memory.
FORMS = ("jagged", "holes", "transposed", "strided")
_LENGTHS = (2, 1, 3)


def batch(lib: Any, form: str, *, requires_grad: bool = False) -> Any:
    """The tensor that programs run on."""
    values = (lib.arange(24, dtype=lib.float64).reshape(6, 4) * 7 % 13 - 5) / 4 + 0.1
    parts = list(values.split(list(_LENGTHS)))
    if form == "transposed":
        made = lib.nested.nested_tensor([one.mT for one in parts], layout=lib.jagged)
    elif form == "holes":
        offsets, lengths = lib.tensor([0, 3, 4, 8]), lib.tensor(_LENGTHS)
        hole = lib.full((1, 4), 9.0, dtype=lib.float64)
        spaced = lib.cat([parts[0], hole, parts[1], parts[2], hole])
        made = lib.nested.nested_tensor_from_jagged(spaced, offsets, lengths)
    else:
        layout = lib.jagged if form == "jagged" else lib.strided
        made = lib.nested.nested_tensor(parts, layout=layout)
    return made.detach().requires_grad_() if requires_grad else made


def _names(lib: Any) -> dict[str, Any]:
    weight = lib.arange(8, dtype=lib.float64).reshape(2, 4) / 8 - 0.3
    return {
        "lib": lib,
        "F": lib.nn.functional,
        "w": weight,
        "row": lib.arange(1, 5, dtype=lib.float64) / 2,
        "each": lib.arange(1, 13, dtype=lib.float64).reshape(3, 1, 4) / 5,
        "flat": lib.arange(1, 4, dtype=lib.float64).reshape(3, 1, 1),
        "mats": lib.arange(24, dtype=lib.float64).reshape(3, 4, 2) / 10 - 1,
    }


def run(lib: Any, program: str, x: Any) -> Any:
    """What a program makes of a batch."""
    return eval(PROGRAMS[program][0], {**_names(lib), "x": x})


def run_component(lib: Any, program: str, c: Any, index: int) -> Any:
    """What it makes of one component."""
    names = {**_names(lib), "c": c, "i": index}
    return eval(PROGRAMS[program][1], names)


_UNARY = """
    abs acos asin atan ceil cos cosh erf exp expm1 floor log2 neg reciprocal relu round rsqrt
    sigmoid sign sin sinh sqrt square tan tanh trunc isnan isinf logical_not positive clone detach
    nan_to_num float double half bool long
"""
_SAFE = {"acos": "(x / 8)", "asin": "(x / 8)", "log2": "(x + 9)", "rsqrt": "(x + 9)"}
_SAFE |= {"sqrt": "(x + 9)", "reciprocal": "(x + 9)"}
_ACTIVATIONS = (
    "celu elu gelu hardswish leaky_relu logsigmoid mish relu selu silu softplus tanhshrink"
)
_ALL = "jagged holes transposed strided"
_ROWS = "jagged holes strided"
_JAGGED = "jagged holes transposed"
_UPRIGHT = "jagged holes"

# The program, the same of a component, and the forms that take it. `holes` and `transposed` are
# jagged too; a dimension that a program names may be the ragged one there.
_ROWS_OF_PROGRAMS = [
    ("x + x", "c + c", _ALL),
    ("x - 2 * x", "c - 2 * c", _ALL),
    ("x / (x * x + 1)", "c / (c * c + 1)", _ALL),
    ("3 - x", "3 - c", _ALL),
    ("2 / (x + 9)", "2 / (c + 9)", _ALL),
    ("(x + 9) ** 1.5", "(c + 9) ** 1.5", _ALL),
    ("2 ** x", "2 ** c", _ALL),
    ("x + row", "c + row", _ROWS),
    ("row - x", "row - c", _ROWS),
    ("x * each", "c * each[i]", _ROWS),
    ("each - x", "each[i] - c", _ROWS),
    ("x / flat", "c / flat[i]", _ALL),
    ("x * flat[:1]", "c * flat[0]", _ALL),
    ("lib.where(x > 0, x, x * 3)", "lib.where(c > 0, c, c * 3)", _ALL),
    ("x.masked_fill(x < 0, 2.0)", "c.masked_fill(c < 0, 2.0)", _ALL),
    ("x.clamp(-0.5, 0.5)", "c.clamp(-0.5, 0.5)", _ALL),
    ("lib.maximum(x, x * 2)", "lib.maximum(c, c * 2)", _ALL),
    ("x == x", "c == c", _ALL),
    ("x < 0.3", "c < 0.3", _ALL),
    ("lib.atan2(x, x + 9)", "lib.atan2(c, c + 9)", _ALL),
    ("lib.lerp(x, x * x, 0.3)", "lib.lerp(c, c * c, 0.3)", _ALL),
    ("lib.addcmul(x, x, x, value=2)", "lib.addcmul(c, c, c, value=2)", _ALL),
    ("x.to(lib.complex128) * 1j", "c.to(lib.complex128) * 1j", _ALL),
    ("F.dropout(x, 0.0)", "c", _ALL),
    ("F.dropout(x, 0.5, training=False)", "c", _ALL),
    ("lib.zeros_like(x)", "lib.zeros_like(c)", _ALL),
    ("lib.full_like(x, 2)", "lib.full_like(c, 2)", _ALL),
    ("x.contiguous()", "c", _ALL),
    # Reductions
    ("x.sum(1)", "c.sum(0)", _ALL),
    ("x.sum(-1)", "c.sum(-1)", _ALL),
    ("x.sum(1, keepdim=True)", "c.sum(0, keepdim=True)", _ALL),
    ("x.sum(2, keepdim=True)", "c.sum(1, keepdim=True)", _ALL),
    ("x.sum((1, 2))", "c.sum((0, 1))", _ALL),
    ("x.mean(1)", "c.mean(0)", _ALL),
    ("x.mean(2)", "c.mean(1)", _ALL),
    ("x.mean((1, 2), keepdim=True)", "c.mean((0, 1), keepdim=True)", _ALL),
    ("x.amax(1)", "c.amax(0)", _ALL),
    ("x.amin(2)", "c.amin(1)", _ALL),
    ("x.max(1).values", "c.max(0).values", _JAGGED),
    ("x.min(2).values", "c.min(1).values", _JAGGED),
    ("x.max(1).indices", "c.max(0).indices", _JAGGED),
    ("x.argmax(1)", "c.argmax(0)", _JAGGED),
    ("x.prod(1)", "c.prod(0)", _JAGGED),
    ("x.prod(2)", "c.prod(1)", _JAGGED),
    ("(x > 0).any(1)", "(c > 0).any(0)", _ALL),
    ("(x > 0).all(2)", "(c > 0).all(1)", _ALL),
    ("x.logsumexp(1)", "c.logsumexp(0)", _JAGGED),
    ("x.var(1, correction=0)", "c.var(0, correction=0)", _JAGGED),
    ("x.std(2, correction=0)", "c.std(1, correction=0)", _JAGGED),
    ("x.softmax(1)", "c.softmax(0)", _ALL),
    ("x.softmax(-1)", "c.softmax(-1)", _ALL),
    ("x.log_softmax(1)", "c.log_softmax(0)", _ALL),
    ("F.log_softmax(x, dim=2)", "F.log_softmax(c, dim=1)", _ALL),
    ("F.layer_norm(x, (4,), row, row)", "F.layer_norm(c, (4,), row, row)", _ROWS),
    ("F.layer_norm(x, x.shape[1:])", "F.layer_norm(c, c.shape)", _JAGGED),
    ("F.rms_norm(x, (4,))", "F.rms_norm(c, (4,))", _ROWS),
    # Products
    ("F.linear(x, w, row[:2])", "F.linear(c, w, row[:2])", _ROWS),
    ("x @ w.mT", "c @ w.mT", _ROWS),
    ("x @ mats", "c @ mats[i]", _ROWS),
    ("lib.bmm(x, mats)", "c @ mats[i]", _ROWS),
    ("mats.mT @ x", "mats.mT[i] @ c", "transposed"),
    ("x.transpose(1, 2) @ x", "c.transpose(0, 1) @ c", "jagged holes strided"),
    ("x @ x.transpose(1, 2)", "c @ c.transpose(0, 1)", "transposed strided"),
    (
        "(lambda q: F.scaled_dot_product_attention(q, q * 2, q + 1))"
        "(x.unflatten(-1, (2, 2)).transpose(1, 2))",
        "(lambda q: F.scaled_dot_product_attention(q, q * 2, q + 1))"
        "(c.unflatten(-1, (2, 2)).transpose(0, 1))",
        _ROWS,
    ),
    (
        "F.scaled_dot_product_attention(x, x, x, is_causal=True)",
        "F.scaled_dot_product_attention(c, c, c, is_causal=True)",
        _ROWS,
    ),
    # Shapes
    ("x.transpose(1, 2)", "c.transpose(0, 1)", _ALL),
    ("x.permute(0, 2, 1)", "c.permute(1, 0)", _JAGGED),
    ("x.movedim(2, 1)", "c.movedim(1, 0)", _JAGGED),
    ("x.mT", "c.mT", _ALL),
    ("x.unsqueeze(1)", "c.unsqueeze(0)", _ALL),
    ("x.unsqueeze(-1)", "c.unsqueeze(-1)", _ALL),
    ("x.unsqueeze(2).squeeze(2)", "c", _ALL),
    ("x.unflatten(-1, (2, 2))", "c.unflatten(-1, (2, 2))", _ROWS),
    ("x.unflatten(-1, (2, 2)).flatten(2, 3)", "c", _UPRIGHT),
    ("x.reshape(3, -1, 2, 2)", "c.reshape(-1, 2, 2)", _ROWS),
    ("x.view(3, -1, 2, 2)", "c.view(-1, 2, 2)", _ROWS),
    ("x.unsqueeze(-1).expand(3, -1, 4, 5)", "c.unsqueeze(-1).expand(-1, 4, 5)", _UPRIGHT),
    ("x.select(2, 1)", "c.select(1, 1)", _ROWS),
    ("x.narrow(2, 1, 2)", "c.narrow(1, 1, 2)", _ROWS),
    ("x[:, :, 1:3]", "c[:, 1:3]", _ROWS),
    ("x[:, :, 1]", "c[:, 1]", _ROWS),
    ("x.split(2, -1)[1]", "c.split(2, -1)[1]", _ROWS),
    ("x.split_with_sizes([1, 3], -1)[1]", "c.split_with_sizes([1, 3], -1)[1]", _ROWS),
    ("x.chunk(2, -1)[1]", "c.chunk(2, -1)[1]", _ROWS),
    ("lib.cat([x, x * 2], -1)", "lib.cat([c, c * 2], -1)", _ROWS),
    ("lib.cat([x, x * 2], 1)", "lib.cat([c, c * 2], 0)", "transposed strided"),
    ("lib.stack([x, x * 2], -1)", "lib.stack([c, c * 2], -1)", _ALL),
    ("lib.stack([x, x * 2], 1)", "lib.stack([c, c * 2], 0)", _ALL),
]


def _with_names() -> dict[str, tuple[str, str, str]]:
    rows = list(_ROWS_OF_PROGRAMS)
    for name in _UNARY.split():
        x = _SAFE.get(name, "x")
        rows.append((f"{x}.{name}()", f"{x.replace('x', 'c')}.{name}()", _ALL))
    rows += [(f"F.{name}(x)", f"F.{name}(c)", _ALL) for name in _ACTIVATIONS.split()]
    return {row[0]: row for row in rows}


PROGRAMS = _with_names()
TAKEN = {name: frozenset(row[2].split()) for name, row in PROGRAMS.items()}
