"""Writes in place to small targets with gaps are the operator on the same numbers without gaps."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as torch
from pullback.operators.arrays.gaps import FEW
from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS
from pullback.operators.running.on_arrays import array_call

# Targets within a tensor of 6 x 8.
PLACES = {
    "columns": lambda y: y[:, ::2],
    "turned": lambda y: y.t()[1:],
    "window": lambda y: y[1:4, 2:7],
    "backwards": lambda y: y.view(-1)[::3],
    "rows": lambda y: y[::2],
}


def in_place():
    """The operators whose in-place form is one array function, with how many other operands."""
    load_all()
    for op in OPERATORS.values():
        only_tensors = all(param.kind == "tensor" for param in op.inputs)
        if op.inplace and op.kind == "elementwise" and array_call(op) and only_tensors:
            yield op.name, len(op.inputs) - 1


def written(name, place, others, *, recorded, apart):
    """The whole after a write in place, and gradients of its sum; `apart`: as a new tensor."""
    rng = np.random.default_rng(3)
    x = torch.tensor(rng.uniform(0.2, 0.8, (6, 8)), requires_grad=recorded)
    y = x * 1
    target = PLACES[place](y)
    operands = [
        torch.tensor(np.broadcast_to(rng.uniform(1.2, 1.8, shape), shape), requires_grad=recorded)
        for shape in (
            {"same": target.shape, "row": target.shape[-1:], "number": ()}[one] for one in others
        )
    ]
    if apart:
        new = getattr(target.clone(), name)(*operands).to(y.dtype)
        target.copy_(new)
    else:
        getattr(target, name + "_")(*operands)
    if not recorded or not y.requires_grad:
        return [y.detach().numpy()]
    (y * torch.arange(48.0).view(6, 8)).sum().backward()
    grads = [one.grad for one in (x, *operands)]
    return [y.detach().numpy(), *(np.zeros(1) if one is None else one.numpy() for one in grads)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("name", "count"), sorted(in_place()))
def test_a_write_is_the_operator_on_the_same_numbers(name, count, place):
    for shape in ("same", "row", "number"):
        for recorded in (False, True):
            given = name, place, (shape,) * count
            try:
                expected = written(*given, recorded=recorded, apart=True)
            except (RuntimeError, TypeError, NotImplementedError):
                continue  # no operator for these numbers
            found = written(*given, recorded=recorded, apart=False)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_max_ulp(a, b, 2)


@pytest.mark.parametrize("place", [name for name in PLACES if name != "backwards"])
def test_a_base_in_another_order_has_the_same_gradients(place):
    grads = []
    for turned in (False, True):
        x = torch.arange(48.0).view(6, 8).requires_grad_()
        y = (x.t().contiguous().t() if turned else x) * 1
        assert y.is_contiguous() is not turned
        PLACES[place](y).mul_(PLACES[place](x) + 1)
        (y * torch.arange(48.0).view(6, 8)).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_array_equal(*grads)


def test_operands_that_overlap_the_target_are_read_before_it_is_written():
    y = torch.arange(16.0).view(4, 4)
    expected = y.numpy().copy()
    expected[:, ::2] += expected[:, 1::2]
    y[:, ::2].add_(y[:, 1::2])
    np.testing.assert_array_equal(y.numpy(), expected)
    big = torch.arange(2.0 * FEW).view(-1, 4)
    with pytest.raises(RuntimeError):
        big[:-1].add_(big[1:])


def test_a_base_that_is_an_operand_is_seen_to_overlap():
    y = torch.arange(4.0)
    with pytest.raises(RuntimeError):
        y[1:3].mul_(y[:2])
    z = torch.ones(1, 4)
    with pytest.raises(RuntimeError):
        z.expand(4, 4).mul_(2.0)
    square = torch.arange(9.0).view(3, 3).clone()
    with pytest.raises(RuntimeError):
        square.t().add_(square)
