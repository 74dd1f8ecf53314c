"""Masked tensors against torch: what counts, its values, and the gradients there."""

import pytest

torch = pytest.importorskip("torch")

import pullback

pytestmark = pytest.mark.filterwarnings("ignore")

UNARY = """
    abs acos angle asinh atan ceil cos cosh deg2rad erf exp exp2 expm1 floor frac isnan log log1p
    neg positive reciprocal round rsqrt sgn sigmoid sign signbit sin sqrt square tanh trunc
"""
BINARY = """
    add atan2 div floor_divide fmod logaddexp mul remainder sub eq ne le ge gt lt maximum minimum
"""
REDUCTIONS = "sum mean amin amax prod all std var argmin argmax"
OTHERS = """
    x[0] | x[:, 1:] | x.t() | x.transpose(0, 1) | x.reshape(3, 2) | x.view(-1) | x.unsqueeze(0)
    x.expand(2, 2, 3) | t.cat([x, x]) | t.stack([x, y]) | x.clone() | x.double() | x.long()
    x.to_tensor(7) | x.get_data() | x.get_mask() | x.softmax(0) | x.softmax(1) | x.split(1)
    t.where(m, x, t.masked.masked_tensor(d, ~m)) | t.where(~m, x, y) | t.ones_like(x) | x.add_(1)
    x.mul_(y) | x.eq_(y) | x.clamp(-1, 1) | x + 2 | 2 / x | x ** 2 | d + x | x.sum().item()
    x + t.masked.masked_tensor(d, ~m) | t.masked.masked_tensor(d, m.float()) | x.dtype | x.layout
    t.masked.masked_tensor(d, m[0]) | repr(x) | repr(x[0, 1]) | repr(x.sum()) | repr(x > 0)
"""
LOSSES = """
    x.sum() | (x * x).mean() | (x / y).sum() | x.exp().sum() | x.amax(1).sum() | x.prod() | x.var()
    x.softmax(1).amax() | t.where(m, x, y).sum() | (x * 3 - y).sum()
"""


def _given(lib, **options):
    data = lib.arange(6.0).reshape(2, 3) - 2.25
    mask = lib.tensor([[True, False, True], [False, True, True]])
    x, y = lib.masked.masked_tensor(data, mask, **options), lib.masked.masked_tensor(data + 3, mask)
    return {"t": lib, "x": x, "y": y, "d": data, "m": mask}


def _counting(lib, value):
    """Shape, dtype, and the elements that count."""
    if isinstance(value, (list, tuple)):
        return [_counting(lib, one) for one in value]
    if not isinstance(value, lib.Tensor):
        return str(value)
    if not lib.masked.is_masked_tensor(value):
        return str(value.dtype), value.tolist()
    data, mask = value.get_data().detach().double(), value.get_mask()
    return str(value.dtype), tuple(value.shape), mask.tolist(), data[mask].tolist()


def _outcome(lib, expression):
    try:
        return _counting(lib, eval(expression, _given(lib)))
    except Exception as error:
        return type(error).__name__


def _expressions():
    for name in UNARY.split():
        yield f"x.{name}()"
    for name in BINARY.split():
        yield from (f"x.{name}(y)", f"t.{name}(x, d)")
    for name in REDUCTIONS.split():
        yield from (f"x.{name}()", f"x.{name}(dim=1)", f"t.{name}(x, 0)")
    yield from (one.strip() for line in OTHERS.strip().splitlines() for one in line.split("|"))


def _near(one, other):
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, float):
        return one == pytest.approx(other, rel=1e-5, abs=1e-6, nan_ok=True)
    return one == other


@pytest.mark.parametrize("expression", list(_expressions()))
def test_what_counts_is_the_same(expression):
    expected = _outcome(torch, expression)
    assert _near(_outcome(pullback, expression), expected), expected


@pytest.mark.parametrize(
    "loss", [one.strip() for line in LOSSES.strip().splitlines() for one in line.split("|")]
)
def test_gradients_of_what_counts_are_the_same(loss):
    def of(lib):
        given = _given(lib, requires_grad=True)
        eval(loss, given).backward()
        return _counting(lib, given["x"].grad)

    assert _near(of(pullback), of(torch))
