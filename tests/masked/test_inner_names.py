"""What programs read off masked tensors' modules: lists of functions, and how two are compared."""

import pytest

import pullback as torch
from pullback.masked import masked_tensor
from pullback.masked.maskedtensor import core
from pullback.masked.maskedtensor.binary import BINARY_NAMES, INPLACE_BINARY_NAMES
from pullback.masked.maskedtensor.unary import INPLACE_UNARY_NAMES, UNARY_NAMES

_MASK = torch.tensor([True, False, True])
_WHOLE = ("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift")
_WHOLE = (*_WHOLE, "bitwise_right_shift")


def _data(name):
    data = torch.tensor([0.25, 0.5, 0.75])
    return (data * 4).int() if name.rstrip("_") in _WHOLE else data


def _arguments(name):
    return {"clamp": (0.3, 0.6), "clip": (0.3, 0.6), "pow": (2.0,)}.get(name.rstrip("_"), ())


@pytest.mark.parametrize("name", UNARY_NAMES)
def test_every_unary_function_works(name):
    data = _data(name)
    made = getattr(torch, name)(masked_tensor(data, _MASK), *_arguments(name))
    expected = getattr(torch, name)(data, *_arguments(name))
    torch.testing.assert_close(made.get_data()[_MASK], expected[_MASK], equal_nan=True)
    assert torch.equal(made.get_mask(), _MASK)


@pytest.mark.parametrize("name", BINARY_NAMES)
def test_every_binary_function_works(name):
    data = _data(name)
    made = getattr(torch, name)(masked_tensor(data, _MASK), masked_tensor(data.flip(0), _MASK))
    torch.testing.assert_close(
        made.get_data()[_MASK], getattr(torch, name)(data, data.flip(0))[_MASK]
    )


@pytest.mark.parametrize("name", [*INPLACE_UNARY_NAMES, *INPLACE_BINARY_NAMES])
def test_every_form_in_place_writes(name):
    data = _data(name)
    x = masked_tensor(data.clone(), _MASK)
    more = _arguments(name)
    if name in INPLACE_BINARY_NAMES:
        more = (masked_tensor(data.flip(0), _MASK),)
    expected = getattr(data.clone(), name)(
        *(one.get_data() if isinstance(one, torch.Tensor) else one for one in more)
    )
    getattr(x, name)(*more)
    torch.testing.assert_close(x.get_data()[_MASK], expected[_MASK], equal_nan=True)


def test_masks_and_tensors_are_compared():
    a, b = masked_tensor(_data(""), _MASK), masked_tensor(_data(""), ~_MASK)
    assert core._masks_match(a, a)
    assert not core._masks_match(a, b)
    assert core._masks_match(a, _data(""))
    near = _data("").double()
    assert not core._tensors_match(near, near + 1e-9)
    assert core._tensors_match(near, near + 1e-9, exact=False)
    assert not core._tensors_match(near, near[:2])
    with pytest.raises(ValueError, match="layout"):
        core._tensors_match(near, near.to_sparse())
