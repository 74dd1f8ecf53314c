"""The same modules on both sides: weights go over, values and gradients are compared."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

LIBRARIES = (pullback, torch)


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape)


def given(library, array, *, grad=False):
    tensor = library.tensor(numpy.asarray(array))
    return tensor.requires_grad_() if grad else tensor


def numbers(tensor):
    return tensor.detach().numpy()


def with_weights_of(ours, theirs):
    """Our module, with the state of torch's, whose names must be the same."""
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({name: pullback.tensor(value.numpy()) for name, value in state.items()})
    return ours


def pair(make, *, double=True):
    """A module of both libraries, made alike, with equal weights and the same text."""
    theirs, ours = make(torch), make(pullback)
    if double:
        theirs, ours = theirs.double(), ours.double()
    assert repr(ours) == repr(theirs)
    return with_weights_of(ours, theirs), theirs


def close(ours, theirs, tolerance=1e-9):
    if theirs is None:
        assert ours is None
    elif isinstance(theirs, torch.Tensor):
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert str(ours.dtype) == str(theirs.dtype)
        numpy.testing.assert_allclose(
            numbers(ours), numbers(theirs), rtol=tolerance, atol=tolerance
        )
    elif isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            close(one, other, tolerance)
    else:
        assert ours == theirs


def leaves(outcome):
    if hasattr(outcome, "grad_fn"):
        return [outcome] if outcome.requires_grad else []
    if isinstance(outcome, tuple | list):
        return [leaf for one in outcome for leaf in leaves(one)]
    return []


def compare(modules, run, arrays, *, seed=7):
    """Run both on equal inputs; results, and gradients of inputs and parameters, are equal."""
    outcomes = []
    for library, module in zip(LIBRARIES, modules, strict=True):
        inputs = [given(library, a, grad=a.dtype.kind == "f") for a in arrays]
        outcome = run(library, module, *inputs)
        total = sum(
            (one * given(library, random(*one.shape, seed=seed + n))).sum()
            for n, one in enumerate(leaves(outcome))
        )
        wanted = [one for one in (*inputs, *module.parameters()) if one.requires_grad]
        gradients = library.autograd.grad(total, wanted, allow_unused=True)
        outcomes.append((outcome, gradients))
    close(outcomes[0][0], outcomes[1][0])
    close(outcomes[0][1], outcomes[1][1])


def outcome(library, action, *args):
    """What a program gives, or the type of its error."""
    try:
        return action(library, *args)
    except Exception as error:
        return type(error).__name__


def same_outcome(action, *args):
    ours, theirs = (outcome(library, action, *args) for library in LIBRARIES)
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
    else:
        close(ours, theirs)
