"""Pooling by machine code: what NumPy's way gives, to the bit, for all that comes that way."""

from functools import partial

import numpy
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import pullback as torch
from pullback.operators.arrays.native import by_machine_code, forget
from pullback.operators.nn.pool import average, maximum, native, places
from pullback.testing.kernel_sizes import only_kernels

pytest.importorskip("llvmlite")
F = torch.nn.functional

by_numpy = partial(torch.backends.native.flags, enabled=False)
FORWARD = {"max": "max_pool", "avg": "average_pool"}


POOLS = [*maximum._PLACED, *average._ALL]


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(native, "MANY", 1)
    forget()  # the kernels of other tests, of which there may be as many as there can be
    others = maximum._bare_max_pool, average._spread_average, places.put_places
    with only_kernels(lambda one: one.machine_code or "halves" in one.name, *POOLS, *others):
        yield


def counted(monkeypatch):
    """The formulas that gave results from now on."""
    seen = []
    run = native.by_machine_code

    def noting(formula, arrays, *options):
        made = run(formula, arrays, *options)
        seen.extend([] if made is None else [formula])
        return made

    monkeypatch.setattr(native, "by_machine_code", noting)
    return seen


def drawn(*shape, dtype=torch.float32):
    """Few different numbers, so that many are the largest of their window."""
    values = numpy.random.default_rng(sum(shape)).integers(-3, 4, shape)
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def results(kind, x, dims, *options):
    """The pooled, where maxima are, and the gradient."""
    pool = getattr(F, f"{kind}_pool{dims}d")
    out, *places = pool(x, *options, return_indices=True) if kind == "max" else (pool(x, *options),)
    g = torch.arange(out.numel(), dtype=out.dtype).reshape(out.shape) + 0.25
    return [out.detach(), *places, *torch.autograd.grad(out, x, g)]


def same(kind, x, dims, *options):
    made = results(kind, x, dims, *options)
    with by_numpy():
        wanted = results(kind, x, dims, *options)
        bare = [getattr(F, f"{kind}_pool{dims}d")(x.detach(), *options)]
    bare.append(getattr(F, f"{kind}_pool{dims}d")(x.detach(), *options))
    for one, other in [*zip(made, wanted, strict=True), bare]:
        assert one.dtype == other.dtype
        assert one.stride() == other.stride()
        assert numpy.array_equal(one.numpy(), other.numpy(), equal_nan=one.is_floating_point())


@given(
    kind=st.sampled_from(["max", "avg"]), planes=st.integers(1, 3),
    size=st.tuples(st.integers(1, 9), st.integers(1, 70)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.none() | st.tuples(st.integers(1, 4), st.integers(1, 4)),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)  # fmt: skip
def test_all_sizes_give_what_numpy_gives(kind, planes, size, kernel, stride, dtype):
    assume(size[0] >= kernel[0] and size[1] >= kernel[1])
    same(kind, drawn(planes, 2, *size, dtype=dtype), 2, kernel, stride)


@given(
    kind=st.sampled_from(["max", "avg"]), size=st.integers(4, 70), kernel=st.integers(1, 4),
    stride=st.none() | st.integers(1, 4),
)  # fmt: skip
def test_lines_give_what_numpy_gives(kind, size, kernel, stride):
    same(kind, drawn(3, 2, size), 1, kernel, stride)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_large_tensors_come_this_way(kind, monkeypatch):
    monkeypatch.undo()
    seen = counted(monkeypatch)
    same(kind, drawn(8, 8, 16, 16), 2, 2)
    back = {"max": "put_places", "avg": "spread_average"}[kind]
    assert seen == [FORWARD[kind], back, FORWARD[kind]]


@pytest.mark.parametrize("options", [(3, 2, 1), (2, 2, 1), (5, 5), (6, 6)], ids=str)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_padding_and_large_windows_are_left_to_numpy(kind, options, monkeypatch):
    seen = counted(monkeypatch)
    same(kind, drawn(2, 3, 12, 12), 2, *options)
    assert FORWARD[kind] not in seen


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_tensors_that_lie_otherwise_in_memory_are_read_right(kind):
    x = drawn(3, 4, 8, 12).detach()
    last = x.to(memory_format=torch.channels_last)
    for one in (x.transpose(2, 3), x[:, ::2], x.flip(3), last, x[:, :1].expand(3, 4, 8, 12)):
        same(kind, one.requires_grad_(), 2, 2)


def test_numbers_that_are_not_finite_are_the_largest_as_with_numpy():
    x = drawn(2, 3, 8, 40).detach()
    x[0, 0, :2, :2] = -numpy.inf
    x[0, 1, 0, 1] = x[0, 1, 1, 0] = x[1, 2, 3, 39] = numpy.nan
    x[0, 1, 1, 1] = numpy.inf
    same("max", x.requires_grad_(), 2, 2)
    _, places = F.max_pool2d(x, 2, return_indices=True)
    assert places[0, 0, 0, 0] == 0  # the first of equal ones
    assert places[0, 1, 0, 0] == 40  # the last NaN


def test_gradients_of_gradients_come_this_way(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand((2, 2, 6, 8), dtype=torch.float64, generator=generator, requires_grad=True)
    seen = counted(monkeypatch)
    for pool in (F.max_pool2d, F.avg_pool2d):
        assert torch.autograd.gradcheck(partial(pool, kernel_size=2), x, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(partial(pool, kernel_size=2), x)
    assert set(seen) == {"max_pool", "put_places", "average_pool", "spread_average"}


def test_other_dtypes_are_left_to_numpy(monkeypatch):
    seen = counted(monkeypatch)
    for dtype in (torch.int64, torch.float16):
        x = torch.ones(2, 2, 8, 8, dtype=dtype)
        assert (F.max_pool2d(x, 2) == 1).all()
    assert not seen


def test_places_outside_of_the_image_write_nothing():
    g = numpy.ones((2, 1, 3), "f4")
    places = numpy.array([[[0, -1, 4]], [[2**62, 3, 3]]])
    (made,) = by_machine_code("put_places", (g, places), (2, 2))
    assert made.tolist() == [[[1, 0], [0, 0]], [[0, 0], [0, 2]]]


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_bits_do_not_depend_on_the_number_of_threads(kind):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand((5, 7, 40, 42), generator=generator, requires_grad=True)
    before = torch.get_num_threads()
    made = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            made.append([one.numpy().tobytes() for one in results(kind, x, 2, 2)])
    finally:
        torch.set_num_threads(before)
    assert made[0] == made[1] == made[2]
