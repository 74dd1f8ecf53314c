"""Checkpoints that recompute through saved tensors, and small functions to put into them."""

import pullback as torch
from pullback.utils.checkpoint import checkpoint as either


def checkpoint(function, *args, **kwargs):
    return either(function, *args, use_reentrant=False, **kwargs)


def leaf(*values):
    return torch.tensor(values or (1.0, 2.0), dtype=torch.float64, requires_grad=True)


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def body(t):
    return (t * t).sin().exp()


def gradient_of(function, *values):
    x = leaf(*values)
    function(x).sum().backward()
    return x.grad.tolist()
