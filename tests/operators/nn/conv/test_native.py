"""Convolutions by machine code: what NumPy's way gives, for all that comes that way."""

from functools import partial

import numpy
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import pullback as torch
from pullback.compiled.counting import counters
from pullback.operators.arrays.native import forget, kernel_of
from pullback.operators.arrays.windows import counts, whole_size
from pullback.operators.nn.conv import native
from pullback.operators.nn.conv.operators import (
    convolution,
    convolution_weight,
    transposed_convolution,
)

pytest.importorskip("llvmlite")
F = torch.nn.functional

by_numpy = partial(torch.backends.native.flags, enabled=False)


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(native, "LEAST", 1)
    native._number.cache_clear()
    forget()  # the kernels of other tests, of which there may be as many as there can be
    yield
    native._number.cache_clear()


def drawn(*shape, dtype="f8"):
    """Whole numbers, whose sums have no rounding, whatever their order."""
    return numpy.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


def run(function, *arguments):
    """By machine code where there is some, of any size; else as the operator does it."""
    op = function.op
    facts = {"xp": numpy}
    for param, value in zip(op.params, arguments, strict=True):
        facts[param.name] = value
        if isinstance(value, numpy.ndarray):
            facts |= {f"{param.name}_{fact}": getattr(value, fact) for fact in ("shape", "dtype")}
    for one in op.kernels if torch.backends.native.is_enabled() else ():
        sizes = [what for what, _ in one.when.limits]
        asked = [text for text in one.when.questions if not any(what in text for what in sizes)]
        if one.machine_code and all(eval(text, {**one.when.scope, **facts}) for text in asked):
            made = one.function(*[facts[name] for name in one.params])
            if made is not None:
                return made
    return op.forward(numpy, *arguments)


def all_three(x, weight, bias, g, stride, padding, dilation):
    """The convolution and its gradients; whatever is machine code."""
    kernel, size = weight.shape[2:], x.shape[2:]
    return [
        run(convolution, x, weight, bias, stride, padding, dilation, 1),
        run(convolution_weight, g, x, kernel, stride, padding, dilation, 1),
        run(transposed_convolution, g, weight, None, size, stride, padding, dilation, 1),
    ]


def counted(monkeypatch):
    """The formulas that are asked for from now on, and whether they were had."""
    seen = []
    run = native.by_machine_code

    def noting(formula, arrays, *options):
        made = run(formula, arrays, *options)
        if torch.backends.native.is_enabled():
            seen.append((formula, made is not None))
        return made

    monkeypatch.setattr(native, "by_machine_code", noting)
    return seen


ALL = {("convolution", True), ("convolution_weight", True), ("convolution_input", True)}


def same(x, weight, bias, stride, padding, dilation):
    number = counts(whole_size(x.shape[2:], padding), weight.shape[2:], stride, dilation)
    g = drawn(x.shape[0], weight.shape[0], *number, dtype=x.dtype)
    made = all_three(x, weight, bias, g, stride, padding, dilation)
    with by_numpy():
        wanted = all_three(x, weight, bias, g, stride, padding, dilation)
    for one, other in zip(made, wanted, strict=True):
        assert one.strides == other.strides
        assert one.dtype == other.dtype
        assert numpy.array_equal(one, other)


sides = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(
    images=st.integers(1, 3), channels=st.integers(1, 5), filters=st.integers(1, 30),
    size=st.tuples(st.integers(1, 9), st.integers(1, 40)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 5)),
    padding=st.tuples(sides, sides),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    has_bias=st.booleans(), dtype=st.sampled_from(["f4", "f8"]),
)  # fmt: skip
def test_all_sizes_give_what_numpy_gives(
    images, channels, filters, size, kernel, padding, stride, dilation, has_bias, dtype
):
    assume(min(counts(whole_size(size, padding), kernel, stride, dilation)) > 0)
    x = drawn(images, channels, *size, dtype=dtype)
    weight = drawn(filters, channels, *kernel, dtype=dtype)
    bias = drawn(filters, dtype=dtype) if has_bias else None
    same(x, weight, bias, stride, padding, dilation)


@pytest.mark.parametrize(
    ("shape", "filters"),
    [
        ((3, 3, 3, 3), (3, 3, 3, 3)),  # equal sizes: nothing may be told apart by its length
        ((16, 16, 16, 16), (16, 16, 3, 3)),
        ((1, 2, 5, 200), (9, 2, 3, 3)),  # lines in parts
        ((1, 1, 300, 7), (4, 1, 2, 1)),
        ((2, 90, 6, 5), (40, 90, 3, 3)),  # a copy of some points at a time
        ((3, 2, 37, 41), (5, 2, 3, 3)),  # blocks of single lines
        ((1, 3, 112, 112), (8, 3, 7, 7)),
        ((20, 2, 16, 16), (1, 2, 3, 3)),  # more images than are copied at once
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_parts_of_the_work_give_what_numpy_gives(monkeypatch, shape, filters, dtype):
    seen = counted(monkeypatch)
    x, weight = drawn(*shape, dtype=dtype), drawn(*filters, dtype=dtype)
    pads = tuple([(k // 2, k - k // 2 - 1) for k in filters[2:]])
    for stride in ((1, 1), (2, 2), (1, 3)):
        same(x, weight, drawn(filters[0], dtype=dtype), stride, pads, (1, 1))
    assert set(seen) == ALL


@example(size=9000, kernel=3, filters=2)  # lines for which the stack has no room
@given(size=st.integers(1, 150), kernel=st.integers(1, 6), filters=st.integers(1, 30))
def test_one_dimension_gives_what_numpy_gives(size, kernel, filters):
    x, weight = drawn(2, 3, size), drawn(filters, 3, kernel)
    same(x, weight, drawn(filters), (1,), ((2 * kernel, 1),), (2,))
    same(x, weight, None, (2,), ((kernel, 0),), (1,))


def laid_out(x, how):
    if how == "turned":
        return numpy.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3)
    if how == "backwards":
        return x[..., ::-1]
    if how == "every other":
        return numpy.repeat(x, 2, 1)[:, ::2]
    if how == "repeated":
        return numpy.broadcast_to(x[:, :, :1], x.shape)
    return numpy.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("how", ["turned", "backwards", "every other", "repeated", "last"])
def test_arrays_that_lie_otherwise_in_memory_are_read_right(how):
    x, weight = drawn(3, 8, 12, 12), drawn(8, 8, 3, 3)
    bias = numpy.repeat(drawn(8), 2)[::2]
    same(laid_out(x, how), laid_out(weight, how), bias, (1, 1), ((1, 1), (1, 1)), (1, 1))
    g, one = laid_out(drawn(3, 8, 12, 12), how), (1, 1)
    made = run(convolution_weight, g, x, (3, 3), one, (one, one), one, 1)
    with by_numpy():
        wanted = run(convolution_weight, g, x, (3, 3), one, (one, one), one, 1)
    assert numpy.array_equal(made, wanted)


def test_numbers_that_are_not_finite_stay_where_they_are():
    x, weight = drawn(2, 3, 9, 21, dtype="f4"), drawn(5, 3, 3, 3, dtype="f4")
    x[0, 1, 4, 20], x[1, 2, 0, 0] = numpy.nan, numpy.inf
    g = drawn(2, 5, 9, 21, dtype="f4")
    pads = ((1, 1), (1, 1))
    made = all_three(x, weight, None, g, (1, 1), pads, (1, 1))
    padded = numpy.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for (o, c, i, j), found in numpy.ndenumerate(made[1]):
        with numpy.errstate(invalid="ignore"):
            wanted = (g[:, o] * padded[:, c, i : i + 9, j : j + 21]).sum()
        assert numpy.array_equal(found, wanted, equal_nan=True)
    reached = numpy.zeros((2, 5, 9, 21), bool)
    reached[0, :, 3:6, 19:] = reached[1, :, :2, :2] = True
    assert numpy.array_equal(numpy.isfinite(made[0]), ~reached)


@pytest.mark.parametrize(
    "options",
    [{"stride": 4}, {"groups": 2}, {"padding": 3}, {"padding": 1, "dilation": 2}],
    ids=str,
)
def test_other_options_are_right_by_whatever_way(options):
    channels = 4 // options.get("groups", 1)
    x, weight = (torch.tensor(drawn(*shape), requires_grad=True)
                 for shape in ((2, 4, 11, 13), (6, channels, 3, 3)))  # fmt: skip

    def results():
        out = F.conv2d(x, weight, **options)
        return [out, *torch.autograd.grad((out * out).sum(), (x, weight))]

    made = results()
    with by_numpy():
        wanted = results()
    for one, other in zip(made, wanted, strict=True):
        assert torch.equal(one, other)


def test_transposed_convolutions_come_this_way(monkeypatch):
    x, weight, bias = (torch.tensor(drawn(*shape), requires_grad=True)
                       for shape in ((2, 6, 9, 9), (6, 5, 3, 3), (5,)))  # fmt: skip

    def results():
        out = F.conv_transpose2d(x, weight, bias, padding=1)
        return [out, *torch.autograd.grad((out * out).sum(), (x, weight, bias))]

    seen = counted(monkeypatch)
    made = results()
    assert set(seen) == ALL
    with by_numpy():
        wanted = results()
    for one, other in zip(made, wanted, strict=True):
        assert torch.equal(one, other)


def test_gradients_of_gradients_come_this_way(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.rand(shape, dtype=torch.float64, generator=generator, requires_grad=True)
        for shape in ((2, 3, 9, 11), (7, 3, 3, 4), (7,))
    )
    conv = partial(F.conv2d, padding=(1, 2))
    seen = counted(monkeypatch)
    given = (x, weight, bias)
    assert torch.autograd.gradcheck(conv, given, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(conv, given, fast_mode=True)
    assert set(seen) == ALL


def test_products_of_single_points_are_left_to_blas(monkeypatch):
    x, weight = (torch.tensor(drawn(*shape), requires_grad=True)
                 for shape in ((2, 4, 8, 8), (6, 4, 1, 1)))  # fmt: skip
    seen = counted(monkeypatch)
    F.conv2d(x, weight).sum().backward()
    assert seen == [("convolution_weight", True)]
    with by_numpy():
        wanted = torch.autograd.grad(F.conv2d(x, weight).sum(), (x, weight))
    assert torch.equal(x.grad, wanted[0])
    assert torch.equal(weight.grad, wanted[1])


def test_batches_of_none_and_other_dtypes_are_left_to_numpy(monkeypatch):
    seen = counted(monkeypatch)
    assert F.conv2d(torch.ones(0, 2, 5, 5), torch.ones(3, 2, 3, 3)).shape == (0, 3, 3, 3)
    for dtype in (torch.int64, torch.complex128):
        x = torch.ones(2, 2, 5, 5, dtype=dtype)
        assert (F.conv2d(x, torch.ones(3, 2, 3, 3, dtype=dtype)) == 18).all()
    assert not seen


def test_long_sums_are_rounded_no_worse_than_blas_rounds_them():
    random = numpy.random.default_rng(0)
    x, weight = random.random((1, 500, 16, 16), "f4"), random.random((8, 500, 3, 3), "f4")
    g = random.random((1, 8, 16, 16), "f4")
    given = (x, weight, None, g)
    wanted = all_three(*(one if one is None else one.astype("f8") for one in given),
                       (1, 1), ((1, 1), (1, 1)), (1, 1))  # fmt: skip
    made = all_three(*given, (1, 1), ((1, 1), (1, 1)), (1, 1))
    for one, other in zip(made, wanted, strict=True):
        assert abs(one - other).max() < 1e-6 * abs(other).max()


@pytest.mark.parametrize("formula", ["convolution", "convolution_weight"])
def test_a_kernel_keeps_no_memory_for_all_images(formula):
    slide = (((1, 1), (1, 1)),)
    x = drawn(64, 8, 32, 32)
    given = {
        "convolution": ((x, drawn(8, 8, 3, 3)), slide),
        "convolution_weight": ((x, x), (3, 3), slide),
    }
    kernel = kernel_of(formula, *given[formula])
    assert kernel is not None, dict(counters["errors"])
    assert kernel._program.plan.arena < 2 * x[0].nbytes


def test_bits_do_not_depend_on_the_number_of_threads():
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.rand(shape, generator=generator, requires_grad=True)
                 for shape in ((5, 7, 30, 31), (11, 7, 3, 3)))  # fmt: skip
    before = torch.get_num_threads()

    def bits():
        out = F.conv2d(x, weight, padding=1)
        made = [out, *torch.autograd.grad((out**2).sum(), (x, weight))]
        return [one.detach().numpy().tobytes() for one in made]

    made = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            made.append(bits())
    finally:
        torch.set_num_threads(before)
    assert made[0] == made[1] == made[2]
