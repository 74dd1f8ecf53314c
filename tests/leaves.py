"""Leaves that require grad, as small tests of autograd begin with."""

import numpy as np

import pullback as torch


def leaf(*values, **options):
    return torch.tensor(values or (1.0, 2.0), requires_grad=True, **options)


def double_leaf(*values):
    return leaf(*values, dtype=torch.float64)


def counted_leaf(*shape):
    """1, 2, 3 ... in a shape, in double precision."""
    values = np.arange(1.0, 1.0 + int(np.prod(shape or (4,))))
    return torch.tensor(values).reshape(shape or (4,)).clone().requires_grad_()
