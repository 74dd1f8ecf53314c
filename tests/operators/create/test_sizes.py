"""Tensors of a given size: zeros, full, eye, their `*_like` and `new_*` relatives."""

import numpy
import pytest

import pullback as torch
from pullback.operators.create.sizes import full_like, new_zeros, zeros_like
from pullback.operators.running.on_arrays import on_arrays


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn])
def test_sizes_are_ints_or_one_sequence(make):
    expected = torch.Size([2, 3])
    assert make(2, 3).shape == expected
    assert make((2, 3)).shape == expected
    assert make([2, 3]).shape == expected
    assert make(torch.Size([2, 3])).shape == expected
    assert make(size=(2, 3)).shape == expected
    assert make(numpy.int64(2), torch.tensor(3)).shape == expected
    assert make(()).shape == torch.Size([])
    assert make(0, 3).shape == torch.Size([0, 3])


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.empty, torch.rand])
@pytest.mark.parametrize("size", [(2.0,), ("a",), (None,), (True,), ((2, 3), 4), ((2, 3.0),), ()])
def test_what_is_no_size_is_a_type_error(make, size):
    with pytest.raises(TypeError, match=r"size|int"):
        make(*size)


def test_negative_sizes_are_refused():
    with pytest.raises(RuntimeError, match="negative length at dim 1"):
        torch.zeros(2, -3)


def test_what_does_not_fit_memory_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="no memory for a tensor of size"):
        torch.zeros(2**62, 2**62)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layout", torch.jagged),
        ("pin_memory", True),
        ("device", "cuda"),
        ("device", "mps"),
    ],
)
def test_what_cannot_be_done_is_said(name, value):
    errors = RuntimeError, NotImplementedError, AssertionError
    with pytest.raises(errors, match=r"cannot|no tensor|needs"):
        torch.zeros(2, **{name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"layout": 3},
        {"dtype": "float32"},
        {"dtype": numpy.float32},
        {"requires_grad": 1},
        {"pin_memory": 1},
        {"colour": "red"},
    ],
)
def test_options_of_the_wrong_kind_are_type_errors(options):
    with pytest.raises(TypeError):
        torch.zeros(2, **options)


def test_default_dtype_is_the_one_that_is_set():
    assert torch.zeros(1).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.zeros(1).dtype is torch.float64
        assert torch.full((1,), 1.0).dtype is torch.float64
        assert torch.full((1,), 1j).dtype is torch.complex128
        assert torch.tensor([1.0]).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_python_types_are_dtypes():
    assert torch.zeros(1, dtype=float).dtype is torch.float64
    assert torch.zeros(1, dtype=int).dtype is torch.int64


@pytest.mark.parametrize(
    "make",
    [
        lambda **o: torch.zeros(2, **o),
        lambda **o: torch.ones(2, **o),
        lambda **o: torch.full((2,), 1.0, **o),
        lambda **o: torch.tensor([1.0, 2.0], **o),
        lambda **o: torch.rand(2, **o),
        lambda **o: torch.eye(2, **o),
        lambda **o: torch.linspace(0, 1, 2, **o),
        lambda **o: torch.arange(2.0, **o),
        lambda **o: torch.zeros_like(torch.ones(2), **o),
        lambda **o: torch.ones(2).new_zeros(2, **o),
        lambda **o: torch.scalar_tensor(1.0, **o),
    ],
)
def test_leaves_require_grad_whatever_the_mode(make):
    with torch.no_grad():
        leaf = make(requires_grad=True)
    assert leaf.requires_grad
    assert leaf.is_leaf
    assert not make().requires_grad
    with pytest.raises(RuntimeError, match="floating point or complex"):
        make(dtype=torch.int64, requires_grad=True)


def test_tensors_made_in_inference_mode_are_inference_tensors():
    with torch.inference_mode():
        assert torch.zeros(2).is_inference()
        assert torch.tensor([1.0]).is_inference()


def test_full_takes_its_dtype_from_the_number():
    assert torch.full((1,), 1).dtype is torch.int64
    assert torch.full((1,), True).dtype is torch.bool
    assert torch.full((1,), 1.0).dtype is torch.float32
    assert torch.full((1,), 1j).dtype is torch.complex64
    assert torch.full((1,), torch.tensor(2)).dtype is torch.int64
    assert torch.full((1,), 1.9, dtype=torch.int32).tolist() == [1]
    assert torch.full((1,), -1, dtype=torch.uint8).tolist() == [255]


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(300, torch.uint8), (-300, torch.uint8), (float("nan"), torch.int32), (1j, torch.float32)],
)
def test_full_refuses_numbers_that_do_not_fit(number, dtype):
    with pytest.raises(RuntimeError, match="does not fit"):
        torch.full((1,), number, dtype=dtype)


def test_full_refuses_what_is_no_number():
    with pytest.raises(TypeError, match="fill_value must be a number"):
        torch.full((1,), "a")
    with pytest.raises(TypeError, match="requires grad or has dimensions"):
        torch.full((1,), torch.tensor([1.0]))
    with pytest.raises(TypeError, match="size must be a tuple"):
        torch.full(2, 1.0)


def test_out_is_written_and_counted():
    out = torch.empty(3)
    assert torch.ones(3, out=out) is out
    assert out.tolist() == [1, 1, 1]
    assert out._version == 1
    assert torch.arange(3, out=out).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="does not fit out="):
        torch.zeros(3, out=out, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.zeros(3, out=torch.empty(3, requires_grad=True))


def test_eye():
    assert torch.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert torch.eye(3, 2).tolist() == [[1, 0], [0, 1], [0, 0]]
    assert torch.eye(0).shape == (0, 0)
    assert torch.eye(2, 0).shape == (2, 0)
    with pytest.raises(RuntimeError, match="must not be negative"):
        torch.eye(-1)
    with pytest.raises(TypeError, match="must be int"):
        torch.eye(2.0)


@pytest.mark.parametrize("offset", [-5, -1, 0, 1, 5])
def test_triangles_partition_the_matrix(offset):
    lower = torch.tril_indices(3, 4, offset).tolist()
    upper = torch.triu_indices(3, 4, offset + 1).tolist()
    places = sorted(zip(*lower, strict=True)) + sorted(zip(*upper, strict=True))
    assert sorted(places) == [(i, j) for i in range(3) for j in range(4)]
    assert all(j <= i + offset for i, j in zip(*lower, strict=True))


def test_strides_of_new_memory():
    assert torch.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert torch.empty_strided((2, 3), (10, 2)).stride() == (10, 2)
    assert torch.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    image = torch.empty(2, 3, 4, 5, memory_format=torch.channels_last)
    assert image.stride() == (60, 1, 15, 3)
    with pytest.raises(RuntimeError, match="same length"):
        torch.empty_strided((2, 3), (1,))
    with pytest.raises(RuntimeError, match="each of the 3 dimensions"):
        torch.empty_permuted((2, 3, 4), (0, 0, 1))


def test_like_keeps_size_dtype_and_order_but_not_requires_grad():
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True).T
    like = torch.zeros_like(x)
    assert (like.shape, like.dtype, like.stride()) == (x.shape, x.dtype, x.stride())
    assert not like.requires_grad
    assert like.grad_fn is None
    rows = torch.zeros_like(x, memory_format=torch.contiguous_format)
    assert rows.stride() == (2, 1)
    assert torch.ones_like(x, dtype=torch.int8).dtype is torch.int8
    assert torch.full_like(x, 7).tolist() == [[7, 7]] * 3
    assert torch.empty_like(x).stride() == x.stride()


def test_like_needs_a_tensor():
    with pytest.raises(TypeError, match=r"zeros_like.*must be a Tensor, got list"):
        torch.zeros_like([1])


def test_new_methods_keep_the_dtype():
    x = torch.ones(3, dtype=torch.int32, requires_grad=False)
    assert x.new_zeros(2, 3).dtype is torch.int32
    assert x.new_ones((2,)).tolist() == [1, 1]
    assert x.new_full((2,), 3.5).tolist() == [3, 3]
    assert x.new_empty(2, 0).shape == (2, 0)
    assert x.new_tensor([1.5, 2]).tolist() == [1, 2]
    assert x.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert x.new_zeros(2, dtype=torch.float64, requires_grad=True).requires_grad


def test_rules_may_call_them_on_arrays():
    g = numpy.ones((2, 3), numpy.float32)
    zeros = on_arrays(zeros_like)(g)
    assert type(zeros) is numpy.ndarray
    assert zeros.dtype == g.dtype
    assert on_arrays(zeros_like)(g, dtype=numpy.dtype("int64")).dtype == numpy.int64
    assert on_arrays(full_like)(g, 2).tolist() == [[2, 2, 2]] * 2
    assert on_arrays(new_zeros)(g, (4,)).shape == (4,)


@pytest.mark.parametrize(
    ("size", "stride"), [((0, 3), (12, 4)), ((2, 0, 3), (1, 7, 4)), ((0,), (5,))]
)
def test_strides_of_no_elements_are_those_that_were_asked_for(size, stride):
    made = torch.empty_strided(size, stride)
    assert made.stride() == stride
    assert made.untyped_storage().nbytes() == 0
    assert made.sum().item() == 0
    assert made.clone().shape == size
