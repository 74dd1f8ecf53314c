"""gradcheck with every option over every operator: forward mode, batches, fast mode (T-147)."""

import pytest

import pullback as torch
from pullback.autograd import gradcheck, gradgradcheck
from pullback.testing.coverage import supports
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in

# They have no derivative.
NOT_CHECKED = {"floor_divide", "heaviside", "geqrf"}
CASES = [
    pytest.param(name, dtype, id=f"{name}-{str(dtype).removeprefix('torch.')}")
    for name in SAMPLES
    if name not in NOT_CHECKED and resolve(torch, name) is not None
    for dtype in (torch.float64, torch.complex128)
    if dtype is torch.float64 or supports(name, "complex")
]


def _smallest(name, dtype, count):
    """The smooth samples with the fewest elements, but not of none: (function, inputs)."""
    function = resolve(torch, name)
    samples = [s for s in samples_for(name, dtype) if s.smooth and s.differentiable]
    samples = [s for s in samples if all(one.numel() for one in s.differentiable)]
    samples.sort(key=lambda sample: sum(one.numel() for one in sample.differentiable))
    # 0-d ones say little of batches; they come last.
    samples.sort(key=lambda sample: all(one.ndim == 0 for one in sample.differentiable))
    for sample in samples[:count]:
        call = sample.bound(function)
        made = tensors_in(call(*sample.differentiable))
        places = [place for place, one in enumerate(made) if one.requires_grad]

        def carrying(*inputs, call=call, places=places):
            made = list(tensors_in(call(*inputs)))
            return tuple(made[place] for place in places)

        if places:
            yield carrying, tuple(sample.differentiable)


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_backward_forward_and_batches_agree_with_finite_differences(name, dtype):
    """T-119, T-120, T-147"""
    for function, inputs in _smallest(name, dtype, 2):
        assert gradcheck(
            function,
            inputs,
            check_forward_ad=True,
            check_batched_grad=True,
            check_batched_forward_grad=True,
            fast_mode=True,
        )


TWICE = [case for case in CASES if supports(case.values[0], "gradgrad")]


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize(("name", "dtype"), TWICE)
def test_second_derivatives_by_both_modes(name, dtype):
    """T-65, T-123, T-147"""
    for function, inputs in _smallest(name, dtype, 1):
        assert gradgradcheck(
            function, inputs, check_fwd_over_rev=True, check_batched_grad=True, fast_mode=True
        )
