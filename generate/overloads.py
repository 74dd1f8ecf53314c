"""Functions whose result depends on how they are called: their lines in the stubs, by hand.

Each is a list of `parameters -> result`; as a method it loses its first parameter.
"""

from __future__ import annotations

from generate.types_of import Imports, ours

_MEDIAN = [
    "input: Tensor -> Tensor",
    "input: Tensor, dim: int, keepdim: bool = False, *, out: Sequence[Tensor] | None = None"
    " -> {name}",
]
_EXTREME = [
    *_MEDIAN,
    "input: Tensor, other: Tensor, *, out: Tensor | None = None -> Tensor",
    "input: Tensor, *, axis: int, keepdims: bool = False, out: Sequence[Tensor] | None = None"
    " -> {name}",
]
_POOL = "input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1"
_POOLED = [
    f"{_POOL}, ceil_mode: bool = False, return_indices: Literal[False] = False -> Tensor",
    f"{_POOL}, ceil_mode: bool = False, *, return_indices: Literal[True] -> tuple[Tensor, Tensor]",
    f"{_POOL}, ceil_mode: bool = False, return_indices: bool = False -> Any",
]
_ADAPTED = [
    "input: Tensor, output_size: Any, return_indices: Literal[False] = False -> Tensor",
    "input: Tensor, output_size: Any, return_indices: bool = False -> Any",
]
_PLACES = [
    "input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False -> Tensor",
    "input: Tensor, *, as_tuple: Literal[True] -> tuple[Tensor, ...]",
]
OVERLOADS: dict[str, list[str]] = {
    **dict.fromkeys((f"max_pool{n}d" for n in (1, 2, 3)), _POOLED),
    **dict.fromkeys((f"adaptive_max_pool{n}d" for n in (1, 2, 3)), _ADAPTED),
    "nonzero": _PLACES,
    **dict.fromkeys(("max", "min"), _EXTREME),
    **dict.fromkeys(("median", "nanmedian"), _MEDIAN),
    "Tensor.size": ["self -> Size", "self, dim: int -> int"],
    "Tensor.stride": ["self -> tuple[int, ...]", "self, dim: int -> int"],
    "Tensor.type": [
        "self -> str",
        "self, dtype: dtype | type | str, non_blocking: bool = False -> Tensor",
    ],
    "Tensor.where": [
        "self, condition: Tensor, other: Tensor | bool | int | float | complex -> Tensor",
    ],
    "where": [
        "condition: Tensor -> tuple[Tensor, ...]",
        "condition: Tensor, input: Tensor | bool | int | float | complex, "
        "other: Tensor | bool | int | float | complex, *, out: Tensor | None = None -> Tensor",
    ],
}

# One signature, whose result depends on an option, or which a factory makes and cannot annotate.
RESULTS = {
    **dict.fromkeys(("unique", "unique_consecutive", "_unique", "_unique2"), "Any"),
    **dict.fromkeys(("fractional_max_pool2d", "fractional_max_pool3d"), "Any"),
    **dict.fromkeys(("item", "tolist", "_type", "storage", "untyped_storage"), "Any"),
    "_typed_storage": "Any",
    **dict.fromkeys(("pca_lowrank", "svd_lowrank"), "tuple[Tensor, Tensor, Tensor]"),
    **{
        f"{kind}max_pool{n}d_with_indices": "tuple[Tensor, Tensor]"
        for kind in ("", "adaptive_", "fractional_")
        for n in (1, 2, 3)
    },
    **dict.fromkeys(
        (
            *("chunk", "split", "split_copy", "split_with_sizes", "split_with_sizes_copy"),
            *("tensor_split", "unbind_copy", "unsafe_chunk", "unsafe_split"),
            "unsafe_split_with_sizes",
        ),
        "tuple[Tensor, ...]",
    ),
}


def lines(name: str, imports: Imports, *, method: bool) -> list[str] | None:
    """The overloads of a function or method; None where there is one signature."""
    known = OVERLOADS.get(f"Tensor.{name}" if method else name) or OVERLOADS.get(name)
    if known is None:
        return None
    mark = f"@{imports.name('overload', 'typing')}\n" if len(known) > 1 else ""
    made = []
    for line in known:
        given, _, result = line.format(name=name).rpartition(" -> ")
        parameters = _split(given)
        if method:
            parameters = ["self", *parameters[1:]]
        typed = ", ".join(_spelled(one, imports) for one in parameters)
        made.append(f"{mark}def {name}({typed}) -> {ours(result, imports)}: ...")
    return made


def _split(given: str) -> list[str]:
    """At the commas outside brackets."""
    parts, depth = [""], 0
    for letter in given:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _spelled(parameter: str, imports: Imports) -> str:
    name, colon, rest = parameter.partition(": ")
    if not colon:
        return parameter
    annotation, equals, default = rest.partition(" = ")
    return f"{name}: {ours(annotation, imports)}{equals}{default}"
