"""torch and pullback side by side, for programs with custom Functions."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import pullback
from pullback.autograd import function as our_functions
from pullback.autograd.graph import Node as OurNode

torch = pytest.importorskip("torch")

THEIRS = SimpleNamespace(
    lib=torch,
    Function=torch.autograd.Function,
    once=torch.autograd.function.once_differentiable,
    grad=torch.autograd.grad,
    Node=torch.autograd.graph.Node,
    creation=lambda t: torch._C._autograd._get_creation_meta(t).name,
)
OURS = SimpleNamespace(
    lib=pullback,
    Function=our_functions.Function,
    once=our_functions.once_differentiable,
    grad=pullback.autograd.grad,
    Node=OurNode,
    creation=lambda t: t._node.manner.creation.name,
)
SIDES = (THEIRS, OURS)


def both(program, *args):
    """Run a program on both sides: what it returns, or the type of what it raises; warnings."""
    outcomes = []
    for side in SIDES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                outcome = program(side, *args)
            except (RuntimeError, TypeError, AttributeError, LookupError) as error:
                outcome = type(error)
        outcomes.append((outcome, sorted({w.category.__name__ for w in caught})))
    return outcomes


def values(tensor):
    return None if tensor is None else np.round(tensor.detach().numpy(), 6).tolist()
