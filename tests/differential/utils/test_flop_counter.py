"""Operations as torch counts them."""

import pytest

import pullback
from pullback.utils import flop_counter as ours

torch = pytest.importorskip("torch")
import torch.utils.flop_counter as theirs

SIDES = ((torch, theirs), (pullback, ours))
PROGRAMS = {
    "mm": (lambda t, a, b: a @ b, (2, 3), (3, 4)),
    "matmul": (lambda t, a, b: a @ b, (2, 1, 3, 4), (5, 4, 2)),
    "linear": (lambda t, x, w: t.nn.functional.linear(x, w), (2, 3, 4), (5, 4)),
    "einsum": (lambda t, a, b: t.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)),
    "mv": (lambda t, a, b: a @ b, (3, 4), (4,)),
    "baddbmm": (lambda t, c, a, b: t.baddbmm(c, a, b), (2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "conv1d": (lambda t, x, w: t.nn.functional.conv1d(x, w), (2, 3, 9), (4, 3, 3)),
    "conv2d": (
        lambda t, x, w: t.nn.functional.conv2d(x, w, stride=2, padding=1),
        *((2, 3, 6, 6), (4, 3, 3, 3)),
    ),
    "groups": (lambda t, x, w: t.nn.functional.conv2d(x, w, groups=2), (1, 2, 5, 5), (4, 1, 3, 3)),
    "transposed": (lambda t, x, w: t.nn.functional.conv_transpose1d(x, w), (1, 2, 5), (2, 3, 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts(name):
    program, *shapes = PROGRAMS[name]
    found = []
    for lib, counter in SIDES:
        inputs = [lib.ones(shape, requires_grad=True) for shape in shapes]
        with counter.FlopCounterMode(display=False) as mode:
            program(lib, *inputs).sum().backward()
        counts = mode.get_flop_counts().get("Global", {})
        found.append({str(op): flops for op, flops in counts.items()})
    assert found[0] == found[1]


def test_formulas():
    shapes = (1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 3)
    assert ours.sdpa_flop_count(*shapes) == theirs.sdpa_flop_count(*shapes)
    out = (1, 2, 5, 3)
    assert ours.sdpa_backward_flop_count(out, *shapes) == theirs.sdpa_backward_flop_count(
        out, *shapes
    )
    assert ours.mm_flop((2, 3), (3, 4)) == theirs.mm_flop((2, 3), (3, 4))
    image = [1, 2, 5, 5], [4, 1, 3, 3], [1, 4, 3, 3]
    assert ours.conv_flop_count(*image) == theirs.conv_flop_count(*image)
