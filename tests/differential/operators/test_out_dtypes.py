"""`out=` of every operator that takes one: the dtypes that torch refuses are refused."""

import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for

torch = pytest.importorskip("torch")

DTYPES = ["float64", "float32", "int64", "int32", "bool", "complex128"]
NAMES = [
    name
    for name in SAMPLES
    if not name.startswith("Tensor.")
    and all(resolve(lib, name) is not None for lib in (pullback, torch))
]
# What loses nothing is converted here: torch refuses some of it, by no rule that one could see.
LENIENT = {"ldexp", "nansum", "nanmean", "var", "std"}


def brought(lib, value):
    """An argument of a sample, for one of the libraries; tensors as copies."""
    if isinstance(value, pullback.Tensor):
        copy = value.detach().clone()
        return copy if lib is pullback else torch.from_numpy(copy.numpy())
    if isinstance(value, pullback.dtype):
        return getattr(lib, str(value).removeprefix("torch."))
    return (
        type(value)(brought(lib, one) for one in value) if type(value) in (tuple, list) else value
    )


def call(lib, name, sample, **more):
    given = [brought(lib, one) for one in (sample.input, *sample.args)]
    named = {key: brought(lib, one) for key, one in sample.kwargs.items()}
    return resolve(lib, name)(*given, **named, **more)


def results_of(lib, name, sample):
    """The tensors that come out, or None where something else does."""
    made = call(lib, name, sample)
    made = (made,) if isinstance(made, lib.Tensor) else made
    tensors = isinstance(made, tuple) and all(isinstance(one, lib.Tensor) for one in made)
    return made if tensors and 0 < len(made) < 4 else None


def refusal(lib, name, sample, made, place, dtype):
    """The error of a call whose `out` has that dtype in one place; None if there is none."""
    outs = [
        lib.empty(0, dtype=getattr(lib, dtype) if number == place else one.dtype)
        for number, one in enumerate(made)
    ]
    try:
        call(lib, name, sample, out=outs[0] if len(outs) == 1 else tuple(outs))
    except (RuntimeError, TypeError) as error:
        return error
    return None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [pullback.float32, pullback.int64], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_dtype_of_out_that_torch_refuses_is_refused(name, dtype):
    try:
        samples = list(samples_for(name, dtype, requires_grad=False))[:2]
    except (TypeError, ValueError, OverflowError):
        pytest.skip("no samples of this dtype")
    for sample in samples:
        try:
            theirs = results_of(torch, name, sample)
            ours = results_of(pullback, name, sample)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            continue
        if theirs is None or ours is None:
            continue
        for place in range(len(theirs)):
            for wanted in DTYPES:
                refused = refusal(torch, name, sample, theirs, place, wanted)
                if type(refused) is not RuntimeError or name in LENIENT or "fft." in name:
                    continue
                found = refusal(pullback, name, sample, ours, place, wanted)
                assert found is not None, (place, wanted, sample)
