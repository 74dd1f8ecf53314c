"""Lazy modules next to torch's: they become the same, with the same state."""

import pytest

import pullback
from tests.differential.nn.sides import LIBRARIES, compare, random, with_weights_of

torch = pytest.importorskip("torch")

CASES = [
    ("LazyLinear", (3,), {}, (2, 5)),
    ("LazyLinear", (3, False), {}, (2, 5)),
    ("LazyConv1d", (4, 2), {"groups": 2}, (2, 4, 6)),
    ("LazyConv2d", (4, 3), {"stride": 2, "bias": False}, (2, 3, 7, 7)),
    ("LazyConv3d", (2, 2), {}, (1, 3, 4, 4, 4)),
    ("LazyConvTranspose1d", (4, 2), {"groups": 2}, (2, 4, 6)),
    ("LazyConvTranspose2d", (4, 2), {"output_padding": 1, "stride": 2}, (2, 3, 4, 4)),
    ("LazyConvTranspose3d", (2, 2), {}, (1, 3, 3, 3, 3)),
    ("LazyBatchNorm1d", (), {}, (4, 3)),
    ("LazyBatchNorm2d", (), {"affine": False}, (4, 3, 2, 2)),
    ("LazyBatchNorm3d", (), {"track_running_stats": False}, (4, 3, 2, 2, 2)),
    ("LazyInstanceNorm1d", (), {}, (4, 3, 5)),
    ("LazyInstanceNorm2d", (), {"affine": False}, (4, 3, 2, 2)),
    ("LazyInstanceNorm3d", (), {}, (2, 3, 2, 2, 2)),
]


@pytest.mark.parametrize(("name", "args", "options", "shape"), CASES)
def test_first_call_gives_shapes_and_class(name, args, options, shape):
    ours, theirs = (getattr(t.nn, name)(*args, **options).double() for t in LIBRARIES)
    assert repr(ours) == repr(theirs)
    assert ours.has_uninitialized_params() == theirs.has_uninitialized_params()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for library, module in zip(LIBRARIES, (ours, theirs), strict=True):
        module(library.tensor(random(*shape)))
    assert repr(ours) == repr(theirs)
    assert type(ours).__name__ == type(theirs).__name__
    assert type(ours) is type(ours).__mro__[0]
    with_weights_of(ours, theirs)
    compare((ours, theirs), lambda library, module, x: module(x), [random(*shape, seed=1)])


@pytest.mark.parametrize(("name", "args", "options", "shape"), CASES[:4])
def test_a_state_gives_shapes_too(name, args, options, shape):
    full, fresh = (getattr(pullback.nn, name)(*args, **options) for _ in range(2))
    full(pullback.tensor(random(*shape)).float())
    fresh.load_state_dict(full.state_dict())
    assert not fresh.has_uninitialized_params()
    x = pullback.tensor(random(*shape, seed=2)).float()
    assert pullback.equal(fresh(x), full(x))
    assert type(fresh) is type(full)


def test_wrong_inputs_are_refused_as_torch_does():
    for library in LIBRARIES:
        with pytest.raises(RuntimeError):
            library.nn.LazyConv2d(4, 3)(library.ones(1, 2))
        layer = library.nn.LazyLinear(2)
        with pytest.raises(ValueError):  # noqa: PT011 (both libraries' words)
            library.nn.utils.parameters_to_vector(layer.parameters())
        layer(library.ones(1, 3))
        with pytest.raises(RuntimeError):
            layer.load_state_dict(library.nn.LazyLinear(2).state_dict())
