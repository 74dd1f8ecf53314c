"""copy.copy, copy.deepcopy, pickle."""

import copy
import pickle

import numpy
import pytest

import pullback as torch


def decorated():
    x = torch.ones(2, 3, requires_grad=True)
    x.grad = torch.full((2, 3), 2.0)
    x.note = ["mine"]
    return x


def test_copy_is_a_leaf_on_the_same_memory():
    x = decorated()
    y = copy.copy(x)
    assert y is not x
    assert y.data_ptr() == x.data_ptr()
    assert y.requires_grad
    assert y.grad is None
    assert y.note is x.note
    computed = copy.copy(x * 2)
    assert computed.is_leaf
    assert computed.requires_grad


def test_copies_have_version_counters_of_their_own():
    x = torch.ones(2)
    y = copy.copy(x)
    y.add_(1)
    assert (x._version, y._version) == (0, 1)
    assert copy.deepcopy(y)._version == 0


def test_deepcopy_takes_grad_and_attributes_along():
    x = decorated()
    y = copy.deepcopy(x)
    assert y.data_ptr() != x.data_ptr()
    assert y.requires_grad
    assert y.grad.tolist() == x.grad.tolist()
    assert y.grad is not x.grad
    assert y.note == ["mine"]
    assert y.note is not x.note


def test_deepcopy_leaves_hooks_behind():
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: g * 100)
    y = copy.deepcopy(x)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]


def test_deepcopy_honours_the_memo():
    x = torch.ones(2)
    first, second = copy.deepcopy([x, x])
    assert first is second


def test_deepcopy_refuses_history():
    with pytest.raises(RuntimeError, match="leaf"):
        copy.deepcopy(torch.ones(2, requires_grad=True) * 2)


def test_deepcopy_keeps_sharing_but_not_the_view_relation():
    base = torch.arange(6.0)
    copied, view, turned = copy.deepcopy([base, base[2:], base.reshape(2, 3).T])
    copied[3] = 99
    assert view.tolist() == [2, 99, 4, 5]
    assert view._base is None
    assert turned.tolist() == [[0, 99], [1, 4], [2, 5]]
    assert base[3] == 3


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.arange(24).reshape(2, 3, 4).permute(1, 2, 0)[1:, ::2],
        torch.ones(2).expand(3, 2),
        torch.tensor(3),
        torch.ones(0, 3),
        torch.tensor([True]),
        torch.tensor([1j]),
        torch.empty_permuted((2, 3, 4), (2, 0, 1)).fill_(1.0),
    ],
)
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_values_shape_strides_and_dtype_survive(tensor, way):
    made = way(tensor)
    assert made.dtype is tensor.dtype
    assert made.shape == tensor.shape
    assert made.stride() == tensor.stride()
    assert made.tolist() == tensor.tolist()


def test_pickle_keeps_the_flag_and_attributes_but_not_grad():
    x = decorated()
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad
    assert y.is_leaf
    assert y.grad is None
    assert y.note == ["mine"]
    computed = pickle.loads(pickle.dumps(x * 2))
    assert computed.is_leaf
    assert computed.requires_grad


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_gives_writable_tensors(protocol):
    x = pickle.loads(pickle.dumps(torch.arange(4.0)[1:], protocol))
    x.add_(1)
    assert x.tolist() == [2, 3, 4]


def test_pickle_of_a_small_view_is_small():
    assert len(pickle.dumps(torch.zeros(10_000)[:2])) < 1000


def test_pickle_warns_of_hooks():
    x = torch.ones(2, requires_grad=True)
    handle = x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="not saved"):
        pickle.dumps(x)
    handle.remove()

    def expected(g):
        return g

    expected.__torch_unserializable__ = True
    x.register_hook(expected)
    pickle.dumps(x)


def test_copies_of_inference_tensors_are_normal_ones():
    with torch.inference_mode():
        x = torch.ones(2)
    for way in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        assert not way(x).is_inference()


def test_bfloat16_survives():
    pytest.importorskip("ml_dtypes")
    x = torch.ones(2, dtype=torch.bfloat16)
    assert pickle.loads(pickle.dumps(x)).dtype is torch.bfloat16
    assert copy.deepcopy(x).dtype is torch.bfloat16


def test_memory_that_numpy_gave_with_gaps():
    x = torch.from_numpy(numpy.zeros((4, 4))[::2, 1:3])
    assert copy.deepcopy(x).tolist() == [[0, 0], [0, 0]]
