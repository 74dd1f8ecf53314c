"""Wrappers of vmap: taken off and put on again, in any order of levels."""

import pytest

import pullback as torch
from pullback.core.mode import get_mode
from pullback.transforms.batched import (
    base_of,
    batched,
    exposed,
    hidden,
    hidden_like,
    with_levels,
)
from pullback.transforms.mapping import mapped


@pytest.fixture
def levels():
    with mapped(2) as outer, mapped(3) as inner:
        yield outer, inner


def test_exposed_and_hidden_are_inverse(levels):
    outer, inner = levels
    base = torch.arange(24.0).reshape(4, 3, 2)
    wrapped = batched(batched(base, 2, outer), 1, inner)
    whole = exposed(wrapped, [outer, inner])
    assert tuple(whole.shape) == (2, 3, 4)
    again = hidden(whole, [outer, inner])
    assert tuple(again.shape) == (4,)
    assert again.level is inner
    assert again.value.level is outer


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("kept", [(), (0,), (1,), (0, 1), (1, 0)])
def test_with_levels_changes_levels_and_nothing_else(levels, kept, grad):
    wanted = tuple(levels[i] for i in kept)
    with torch.set_grad_enabled(grad):
        before = get_mode()
        with with_levels(wanted):
            mode = get_mode()
            assert mode.levels == wanted
            assert mode.grad is grad
        assert get_mode() is before


def test_what_a_tensor_has_not_is_expanded(levels):
    outer, inner = levels
    whole = exposed(batched(torch.ones(4, 2), 1, outer), [outer, inner])
    assert tuple(whole.shape) == (2, 3, 4)
    part = exposed(batched(batched(torch.ones(4, 3, 2), 2, outer), 1, inner), [inner])
    assert tuple(part.shape) == (3, 4)
    assert part.level is outer


def test_hidden_like_takes_the_wrappers_of_another(levels):
    outer, inner = levels
    model = batched(batched(torch.zeros(4, 3, 2), 2, outer), 1, inner)
    made = hidden_like(torch.ones(4, 3, 2), model)
    assert tuple(made.shape) == (4,)
    assert tuple(base_of(made).shape) == (2, 3, 4)


def test_stand_in_shows_its_geometry_and_no_values(levels):
    _, inner = levels
    array = batched(torch.ones(3, 4), 0, inner)._array
    assert array.shape == (4,)
    assert array[1:].shape == (3,)
    for read in (lambda: array + 1, lambda: array.sum(), lambda: float(array[0]), array.tolist):
        with pytest.raises(RuntimeError, match="vmap"):
            read()
