"""Options that are numbers may be tensors without dimensions, as torch's scalars may."""

import pytest

import pullback as torch
from pullback.operators.attach.every import load_all
from pullback.testing import SAMPLES, resolve, samples_for

load_all()
WITH_NUMBERS = [
    name
    for name in sorted(SAMPLES)
    if getattr(getattr(resolve(torch, name), "op", None), "typed", None)
]


def named(op, sample):
    """The sample's arguments by their names; none where they cannot all be named."""
    names = [param.name for param in op.params]
    args = (sample.input, *sample.args)
    return (
        {**dict(zip(names, args, strict=False)), **sample.kwargs} if len(args) <= len(names) else {}
    )


def run(function, given):
    torch.manual_seed(0)
    (_, first), *others = given.items()
    made = function(first, **dict(others))
    return made if isinstance(made, tuple | list) else (made,)


def is_a_number(value):
    return type(value) is float or (type(value) is int and abs(value) < 2**63)


@pytest.mark.parametrize("name", WITH_NUMBERS)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_of_one_number_stands_for_the_number(name):
    function = resolve(torch, name)
    tried = 0
    for sample in samples_for(name, torch.float64, requires_grad=False):
        given = named(function.op, sample)
        for option in function.op.typed:
            value = given.get(option)
            if not is_a_number(value):
                continue
            tried += 1
            dtype = torch.int64 if type(value) is int else torch.float64
            made = run(function, {**given, option: torch.tensor(value, dtype=dtype)})
            for one, want in zip(made, run(function, given), strict=True):
                torch.testing.assert_close(one, want, rtol=0, atol=0, equal_nan=True)
    if not tried:
        pytest.skip("no sample gives one")
