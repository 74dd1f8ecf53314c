"""NumPy's protocols and DLPack."""

import numpy
import pytest

import pullback as torch


def test_numpy_shares_memory_both_ways():
    x = torch.zeros(2)
    x.numpy()[0] = 7
    assert x.tolist() == [7, 0]
    array = numpy.zeros(2)
    y = torch.from_numpy(array)
    y.add_(1)
    assert array.tolist() == [1, 1]


def test_numpy_refuses_to_leave_history_behind():
    x = torch.ones(2, requires_grad=True)
    for convert in (lambda: x.numpy(), lambda: (x * 2).numpy(), lambda: numpy.asarray(x)):
        with pytest.raises(RuntimeError, match="detach"):
            convert()
    assert x.numpy(force=True).tolist() == [1, 1]
    with torch.no_grad():
        assert x.numpy().tolist() == [1, 1]


def test_array_protocol():
    x = torch.ones(2)
    assert numpy.asarray(x).base is x.numpy() or numpy.shares_memory(numpy.asarray(x), x.numpy())
    assert numpy.asarray(x, dtype=numpy.float64).dtype == numpy.float64
    assert not numpy.shares_memory(numpy.array(x, copy=True), x.numpy())
    with pytest.raises(ValueError, match="avoid copy"):
        numpy.array(x, dtype=numpy.float64, copy=False)
    assert numpy.concatenate([x, x]).tolist() == [1, 1, 1, 1]
    assert numpy.array([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("array", "error"),
    [
        ([1, 2], TypeError),
        (numpy.float32(1), TypeError),
        (numpy.ones(4)[::-1], ValueError),
        (numpy.ones(2, ">f4"), ValueError),
        (numpy.ones(2, numpy.longdouble), TypeError),
        (numpy.array([1, None]), TypeError),
        (numpy.zeros(3, [("a", "i1"), ("b", "f8")])["b"], ValueError),
    ],
)
def test_from_numpy_refuses(array, error):
    with pytest.raises(error):
        torch.from_numpy(array)


def test_read_only_arrays_warn_and_stay_read_only():
    array = numpy.zeros(2)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="read-only"):
        x = torch.from_numpy(array)
    with pytest.raises((RuntimeError, ValueError), match="read-only"):
        x.add_(1)
    assert array.tolist() == [0, 0]


def test_arrays_on_the_left_give_tensors():
    array, x = numpy.array([1.0, 2.0]), torch.ones(2, dtype=torch.float64, requires_grad=True)
    for result in (array * x, array + x, array - x, array / x, array**x):
        assert isinstance(result, torch.Tensor)
        assert result.requires_grad
    assert torch.autograd.grad((array * x).sum(), x)[0].tolist() == [1, 2]
    assert (array - x).tolist() == [0, 1]
    assert (array < x).tolist() == [False, False]
    assert (numpy.float64(2) - torch.ones(2)).dtype is torch.float32
    matrix = numpy.ones((2, 2)) @ torch.ones(2, 2, dtype=torch.float64)
    assert matrix.tolist() == [[2, 2], [2, 2]]


def test_numpy_functions_are_our_operators_where_there_are_some():
    x = torch.zeros(2, requires_grad=True)
    assert numpy.sin(x).grad_fn.name() == "SinBackward0"
    assert numpy.add(x, 1).grad_fn is not None
    assert numpy.isnan(x).tolist() == [False, False]


def test_numpy_functions_without_operator_run_on_arrays():
    x = torch.tensor([8.0, 27.0])
    assert isinstance(numpy.cbrt(x), torch.Tensor)
    assert numpy.cbrt(x).tolist() == pytest.approx([2, 3])
    assert numpy.add.reduce(x).item() == 35
    quotient, rest = numpy.divmod(x, 5)
    assert (quotient.tolist(), rest.tolist()) == ([1, 5], [3, 2])
    with pytest.raises(RuntimeError, match="detach"):
        numpy.cbrt(x.requires_grad_())


def test_out_of_numpy_functions():
    array, x = numpy.zeros(2), torch.ones(2)
    assert numpy.add(x, 1, out=array) is array
    array += x
    assert array.tolist() == [3, 3]
    target = torch.zeros(2)
    assert numpy.add(array, 1, out=target) is target
    assert target.tolist() == [4, 4]
    assert target._version == 1


def test_dlpack_both_ways():
    x = torch.arange(3)
    assert numpy.from_dlpack(x).tolist() == [0, 1, 2]
    array = numpy.zeros(2)
    y = torch.from_dlpack(array)
    y.add_(1)
    assert array.tolist() == [1, 1]
    assert x.__dlpack_device__() == (1, 0)
    assert torch.from_dlpack(x.__dlpack__()).tolist() == [0, 1, 2]
    assert torch.from_dlpack(array, copy=True).data_ptr() != y.data_ptr()
    with pytest.raises(BufferError, match="detach"):
        torch.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(RuntimeError, match="__dlpack__"):
        torch.from_dlpack(3)


def test_dlpack_of_the_first_version_is_writable():
    class Old:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    array = numpy.zeros(2)
    torch.from_dlpack(Old(array)).add_(1)
    assert array.tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # from NumPy 2.5 on
def test_a_tensor_keeps_its_shape_when_its_array_is_given_another():
    for make in (torch.from_numpy, torch.as_tensor, torch.asarray):
        array = numpy.zeros(6)
        x = make(array)
        array.shape = (2, 3)
        array[1, 2] = 1
        assert x.shape == (6,)
        assert x[5] == 1


def test_arrays_are_no_tensors_for_functions_and_methods():
    """Beside a sign they are; called by name, an array there is a mistake that torch tells too."""
    x, array = torch.ones(3), numpy.ones(3)
    calls = [
        lambda: torch.sin(array),
        lambda: torch.add(x, array),
        lambda: torch.add(array, x),
        lambda: x.mul(array),
        lambda: x.add_(array),
        lambda: torch.cat([x, array]),
        lambda: torch.where(array > 0, x, x),
        lambda: x.index_select(0, numpy.arange(2)),
        lambda: torch.nn.functional.relu(array),
        lambda: torch.nn.functional.mse_loss(x, array),
        lambda: torch.nn.functional.linear(x, numpy.ones((2, 3), numpy.float32)),
        lambda: torch.sum(numpy.float32(1)),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert (x.double() @ array).item() == 3
    assert torch.equal(x + array, array + x)
    assert torch.equal(x.clone().__iadd__(array), x + 1)
    assert torch.add(x, numpy.float32(1)).dtype is torch.float32


def test_numpy_does_not_write_into_a_tensor_with_a_history():
    """Its gradient would still be that of what it held before."""
    leaf = torch.ones(2, requires_grad=True)
    target = leaf * 3
    for into in (leaf, target):
        with pytest.raises(RuntimeError, match="add: this tensor requires grad"):
            numpy.add(torch.ones(2), 1, out=into)
    assert (leaf.tolist(), target.tolist()) == ([1, 1], [3, 3])
    with torch.no_grad():
        assert numpy.add(torch.ones(2), 1, out=leaf) is leaf
    assert leaf.tolist() == [2, 2]
