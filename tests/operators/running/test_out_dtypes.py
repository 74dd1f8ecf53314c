"""`out=` of a dtype to which the result cannot go: refused before anything is written."""

import pytest

import pullback as torch
from pullback.core.promotion import can_cast
from pullback.testing import SAMPLES, resolve, samples_for

DECLARED = [
    name for name in SAMPLES if getattr(getattr(resolve(torch, name), "op", None), "has_out", False)
]


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.filterwarnings("ignore")
def test_out_of_a_dtype_that_cannot_hold_the_result_is_refused(name):
    function = resolve(torch, name)
    sample = next(iter(samples_for(name, torch.float64, requires_grad=False)))
    made = sample.call(function)
    made = (made,) if isinstance(made, torch.Tensor) else tuple(made)
    for place, result in enumerate(made):
        for dtype in (torch.bool, torch.int32, torch.float32, torch.complex64):
            casts = function.op.casts_out and not function.op.exact_out
            if dtype is result.dtype or (casts and can_cast(result.dtype, dtype)):
                continue
            outs = [torch.zeros(one.shape, dtype=one.dtype) for one in made]
            outs[place] = torch.zeros(result.shape, dtype=dtype)
            out = outs[0] if len(outs) == 1 else tuple(outs)
            with pytest.raises(RuntimeError):
                function(sample.input, *sample.args, **sample.kwargs, out=out)
            assert not any(bool((one != 0).any()) for one in outs)


X = torch.tensor([[3.0, 1.0, 2.0]])


@pytest.mark.parametrize(
    ("call", "out"),
    [
        (lambda out: torch.all(X.long(), 0, out=out), torch.float32),
        (lambda out: torch.isposinf(X, out=out), torch.float32),
        (lambda out: torch.cumsum(X, 0, dtype=torch.int16, out=out), torch.int64),
        (lambda out: torch.cumprod(X, 0, dtype=torch.int16, out=out), torch.int64),
        (lambda out: torch.sum(X, 0, dtype=torch.int16, out=out), torch.int64),
        (lambda out: torch.prod(X, 0, dtype=torch.int16, out=out), torch.int64),
        (lambda out: torch.float_power(X, 2, out=out), torch.float32),
        (lambda out: torch.nonzero_static(X, size=1, out=out), torch.float32),
        (lambda out: torch.logcumsumexp(X, 0, out=out), torch.float64),
        (lambda out: torch.linalg.multi_dot([X, X.t()], out=out), torch.float64),
        (lambda out: torch.mode(X, 0, out=(torch.empty(0), out)), torch.float32),
        (lambda out: torch.mode(X, 0, out=(out, torch.empty(0).long())), torch.float64),
        (lambda out: torch.max(X, 0, out=(torch.empty(0), out)), torch.int32),
        (lambda out: torch.frexp(X, out=(torch.empty(0), out)), torch.int64),
        (lambda out: torch.sort(X, out=(torch.empty(0), out)), torch.int32),
    ],
)
def test_out_of_another_dtype_is_not_written(call, out):
    target = torch.empty(0, dtype=out)
    with pytest.raises(RuntimeError):
        call(target)
    assert target.shape == (0,)


def test_sums_are_converted_to_the_dtype_of_out():
    for function in (torch.sum, torch.mean, torch.cumsum):
        made = function(X, 0, out=torch.empty(0, dtype=torch.float64))
        assert made.dtype is torch.float64
        assert made.reshape(-1).tolist() == [3, 1, 2]


@pytest.mark.parametrize("number", [3, 1.5, 2**70])
def test_results_of_a_number_are_written_where_a_tensor_says_the_shape(number):
    low, high, out = torch.zeros(3), torch.full((3,), 2.0), torch.zeros(3)
    assert torch.clamp(number, min=low, max=high, out=out) is out
    assert out.tolist() == [min(number, 2.0)] * 3
