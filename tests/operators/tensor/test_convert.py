"""Casts, `to`, and Python's numbers."""

import math
import operator

import numpy
import pytest

import pullback as torch
from pullback.operators.running.on_arrays import on_arrays
from pullback.operators.tensor.convert import astype


def grad(output, leaf, **options):
    return torch.autograd.grad(output, leaf, **options)[0]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((torch.float64,), {}),
        ((torch.float64, True), {}),
        ((torch.float64, False, True), {}),
        (("cpu", torch.float64), {}),
        ((None, torch.float64), {}),
        ((torch.device("cpu"),), {"dtype": torch.float64}),
        ((), {"dtype": torch.float64}),
        ((), {"device": "cpu", "dtype": torch.float64, "non_blocking": True, "copy": True}),
        ((float,), {}),
        ((torch.ones(1, dtype=torch.float64),), {}),
        ((torch.ones(1, dtype=torch.float64), False, True), {}),
    ],
)
def test_every_form_of_to(arguments, options):
    assert torch.ones(2).to(*arguments, **options).dtype is torch.float64


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((torch.float64, "cpu"), {}),
        (("cpu", "cpu"), {}),
        ((torch.strided,), {}),
        (([1],), {}),
        ((), {"other": torch.ones(1)}),
        ((torch.float64,), {"dtype": torch.float64}),
        ((torch.float64,), {"memory_format": "channels_last"}),
        (("cpu", torch.float64, False, False, False), {}),
    ],
)
def test_to_refuses_what_it_cannot_mean(arguments, options):
    with pytest.raises(TypeError):
        torch.ones(2).to(*arguments, **options)


def test_to_refuses_devices_that_hold_nothing():
    for device in ("mps", "nonsense"):
        with pytest.raises(RuntimeError):
            torch.ones(2).to(device)
    with pytest.raises(AssertionError):
        torch.ones(2).to("cuda")
    with pytest.raises(AssertionError):
        torch.ones(2).cuda()


def test_nothing_to_change_gives_the_same_object():
    x = torch.ones(2, requires_grad=True)
    assert x.to(torch.float32) is x
    assert x.to("cpu") is x
    assert x.to() is x
    assert x.to(x) is x
    assert x.float() is x
    assert x.cpu() is x
    assert x.type_as(x) is x
    assert x.to(copy=True) is not x


def test_casts_are_recorded_and_their_gradients_cast_back():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.double()
    assert y.grad_fn.name() == "ToCopyBackward0"
    first = grad((y**3).sum(), x, create_graph=True)
    assert first.dtype is torch.float32
    assert first.tolist() == [3, 12]
    assert grad(first.sum(), x).tolist() == [6, 12]


def test_integers_end_gradients():
    x = torch.ones(2, requires_grad=True)
    for y in (x.long(), x.bool(), x.to(torch.uint8)):
        assert not y.requires_grad
        assert y.grad_fn is None


def test_real_to_complex_takes_the_real_part_back():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(torch.complex64) * (1 + 2j)
    assert grad(y, x, grad_outputs=torch.ones_like(y)).tolist() == [1, 1]


def test_complex_to_real_warns():
    z = torch.tensor([1 + 2j], requires_grad=True)
    with pytest.warns(UserWarning, match="imaginary part"):
        y = z.to(torch.float32)
    assert y.tolist() == [1]
    assert grad(y.sum(), z).tolist() == [1 + 0j]
    assert z.detach().bool().tolist() == [True]


def test_memory_order_is_kept_or_asked_for():
    x = torch.ones(2, 3).T
    assert x.double().stride() == (1, 3)
    assert x.to(torch.float64, memory_format=torch.contiguous_format).stride() == (2, 1)
    # As torch: no other format fits, so it counts as contiguous already.
    assert x.to(memory_format=torch.contiguous_format) is x
    image = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert image.stride() == (60, 1, 15, 3)
    assert image.to(memory_format=torch.channels_last) is image
    with pytest.raises(RuntimeError, match="4 dimensions"):
        x.to(memory_format=torch.channels_last)


def test_expanded_tensors_become_dense():
    assert torch.ones(1, 3).expand(2, 3).double().stride() == (3, 1)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("half", "float16"),
        ("float", "float32"),
        ("double", "float64"),
        ("cfloat", "complex64"),
        ("cdouble", "complex128"),
        ("byte", "uint8"),
        ("char", "int8"),
        ("short", "int16"),
        ("int", "int32"),
        ("long", "int64"),
        ("bool", "bool"),
    ],
)
def test_methods_named_after_types(name, dtype):
    assert getattr(torch.ones(2), name)().dtype is getattr(torch, dtype)


def test_bfloat16():
    pytest.importorskip("ml_dtypes")
    x = torch.tensor([1.5]).bfloat16()
    assert x.dtype is torch.bfloat16
    assert x.item() == 1.5
    assert x.tolist() == [1.5]
    assert bool(x)


def test_old_type_names():
    x = torch.ones(2)
    assert x.type() == "torch.FloatTensor"
    assert x.long().type() == "torch.LongTensor"
    assert x.type(torch.int8).dtype is torch.int8
    assert x.type("torch.DoubleTensor").dtype is torch.float64
    with pytest.raises(ValueError, match="names no tensor type"):
        x.type("torch.FooTensor")
    with pytest.raises(TypeError):
        x.type(3)
    with pytest.raises(TypeError, match="must be a Tensor"):
        x.type_as(3)


def test_astype_serves_arrays_and_tensors():
    array = numpy.ones(2, numpy.float32)
    assert astype(torch.ones(2), numpy.dtype("int64")).dtype is torch.int64
    on_array = on_arrays(astype)
    assert on_array(array, torch.float64).dtype == numpy.float64
    assert on_array(array, array.dtype) is array
    assert on_array(numpy.array([1 + 2j]), numpy.dtype("float64")).tolist() == [1]


# Python's numbers


@pytest.mark.parametrize("value", [2.5, 3, True, 1 + 2j])
def test_item_gives_pythons_own_types(value):
    for x in (torch.tensor(value), torch.tensor([[value]])):
        assert x.item() == value
        assert type(x.item()) is type(value)


def test_only_one_element_is_a_number():
    for x in (torch.ones(2), torch.ones(0)):
        with pytest.raises(RuntimeError, match="one element"):
            x.item()
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(x)
        with pytest.raises(RuntimeError, match="ambiguous"):
            torch.is_nonzero(x)
        for kind in (int, float, complex):
            with pytest.raises(ValueError, match="one element"):
                kind(x)
        with pytest.raises(TypeError, match="index"):
            operator.index(x)


def test_conversions_by_python():
    assert int(torch.tensor(2.7)) == 2
    assert float(torch.tensor([2])) == 2.0
    assert complex(torch.tensor(2)) == 2 + 0j
    assert float(torch.tensor(1 + 0j)) == 1.0
    assert "abc"[torch.tensor(1)] == "b"
    assert operator.index(torch.tensor(True)) == 1
    assert int(torch.tensor(2.0, requires_grad=True)) == 2
    with pytest.raises(OverflowError):
        int(torch.tensor(float("inf")))
    with pytest.raises(RuntimeError, match="imaginary part"):
        float(torch.tensor(1j))
    with pytest.raises(TypeError, match="integer tensor"):
        operator.index(torch.tensor(1.0))


@pytest.fixture
def warned():
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("warned")
@pytest.mark.parametrize("take", [float, complex, lambda x: torch.tensor([x, 2.0]), math.floor])
def test_a_number_of_a_tensor_that_requires_grad_warns_but_for_what_says_so(take):
    x = torch.tensor(2.0, requires_grad=True)
    with pytest.warns(UserWarning, match="requires_grad=True.*item"):
        take(x)
    with torch.no_grad():
        take(x)
    take(x.detach())
    assert (int(x), bool(x), x.item(), x.tolist()) == (2, True, 2.0, 2.0)


def test_truth():
    assert torch.tensor(float("nan"))
    assert torch.tensor([[3]])
    assert not torch.tensor(0j)
    assert torch.is_nonzero(torch.tensor(1.0))


def test_lists():
    assert torch.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert torch.tensor(1.5).tolist() == 1.5
    assert torch.ones(0, 2).tolist() == []
    assert torch.ones(2, 0).tolist() == [[], []]


def test_membership():
    x = torch.tensor([[1, 2], [3, 4]])
    assert 1 in x
    assert 1.0 in x
    assert 5 not in x
    assert torch.tensor([1, 2]) in x
    for wrong in ("a", None, [1]):
        with pytest.raises(RuntimeError, match="looks for numbers"):
            wrong in x
    with pytest.raises(RuntimeError, match="broadcast"):
        torch.ones(3) in x


def test_iteration_gives_views_with_history():
    x = torch.ones(2, 3, requires_grad=True)
    rows = list(x)
    assert [row.shape for row in rows] == [(3,), (3,)]
    assert grad(rows[1].sum(), x).tolist() == [[0, 0, 0], [1, 1, 1]]
    with pytest.raises(TypeError, match="0-d"):
        iter(torch.tensor(1.0))
    assert list(torch.ones(0)) == []
    assert [int(i) for i in reversed(torch.arange(3))] == [2, 1, 0]
