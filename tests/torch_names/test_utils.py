"""`torch._utils`: small things that libraries take from there."""

import pickle

import pytest

import pullback as torch
from pullback import _utils


def test_tensors_are_laid_end_to_end_and_taken_apart_again():
    some = [torch.arange(6.0).view(2, 3).t(), torch.ones(()), torch.zeros(0, 2)]
    flat = _utils._flatten_dense_tensors(some)
    assert flat.tolist() == [0, 3, 1, 4, 2, 5, 1]
    again = _utils._unflatten_dense_tensors(flat, some)
    assert all(torch.equal(a, b) for a, b in zip(some, again, strict=True))


def test_tensors_are_taken_by_type_and_size_and_put_back_in_order():
    some = [
        torch.full((n,), float(n), dtype=d)
        for n in (1, 2, 3)
        for d in (torch.float32, torch.float64)
    ]
    parts = list(_utils._take_tensors(some, 16))
    assert [[t.numel() for t in part] for part in parts] == [[1], [1, 2], [2], [3], [3]]
    mixed = sorted(some, key=lambda t: str(t.dtype))
    again = _utils._reorder_tensors_as(mixed, some)
    assert all(a is b for a, b in zip(some, again, strict=True))


def test_a_device_is_told_by_its_number():
    assert _utils._get_device_index(3) == 3
    assert _utils._get_device_index("cuda:2") == 2
    assert _utils._get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="accelerator"):
        _utils._get_device_index("cpu")
    with pytest.raises(ValueError, match="number"):
        _utils._get_device_index("cuda")


def test_an_exception_travels_as_text_and_is_raised_again():
    try:
        {}["key"]
    except KeyError:
        wrapped = pickle.loads(pickle.dumps(_utils.ExceptionWrapper(where="in worker 1")))
    with pytest.raises(KeyError, match="in worker 1"):
        wrapped.reraise()


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def test_an_exception_that_cannot_be_made_again_is_a_runtime_error():
    odd = OddError(1, 2)
    wrapped = _utils.ExceptionWrapper((OddError, odd, None))
    with pytest.raises(RuntimeError, match="Odd"):
        wrapped.reraise()


def test_names_lead_to_things_and_files_functions_are_the_loaders():
    assert _utils._import_dotted_name("pullback.nn.Linear") is torch.nn.Linear
    assert _utils._element_size(torch.float64) == 8
    x = torch.arange(4.0)
    made = _utils._rebuild_tensor_v2(x._typed_storage(), 1, (3,), (1,), True, {})
    assert made.requires_grad
    x[1] = 7
    assert made.tolist() == [7, 2, 3]
    with pytest.raises(AttributeError):
        _utils.no_such_name
