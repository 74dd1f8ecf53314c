"""Weak references and dicts by identity."""

import copy
import gc

import pytest

import pullback as torch
from pullback.utils.weak import (
    TensorWeakRef,
    WeakIdKeyDictionary,
    WeakIdRef,
    WeakTensorKeyDictionary,
)


def test_references_compare_objects_and_not_values():
    x, y = torch.ones(2), torch.ones(2)
    assert WeakIdRef(x) == WeakIdRef(x)
    assert hash(WeakIdRef(x)) == hash(WeakIdRef(x))
    assert WeakIdRef(x) != WeakIdRef(y)
    dead = WeakIdRef(torch.ones(1))
    assert dead() is None
    assert dead == dead
    assert dead != WeakIdRef(x)


def test_entries_go_with_their_keys():
    names = WeakTensorKeyDictionary()
    x, y = torch.ones(2), torch.ones(2)
    names[x], names[y] = "x", "y"
    assert names[x] == "x"
    assert list(names.items())[1][0] is y
    assert torch.ones(2) not in names
    assert 3 not in names
    del x
    assert len(names) == 1
    assert names.get(torch.ones(2)) is None
    with pytest.raises(KeyError):
        names[torch.ones(2)]


def test_no_garbage_is_left_for_the_collector():
    gc.collect()
    gc.disable()
    try:
        names = WeakIdKeyDictionary()
        x = torch.ones(2)
        names[x] = 1
        alive = WeakIdRef(names)
        del names
        assert alive() is None
    finally:
        gc.enable()


def test_dict_operations():
    x, y = torch.ones(1), torch.ones(1)
    names = WeakIdKeyDictionary({x: 1})
    assert (names | {y: 2})[y] == 2
    assert ({x: 5} | names)[x] == 1
    names |= {y: [3]}
    assert names.copy() == names == {x: 1, y: [3]}
    deep = copy.deepcopy(names)
    assert deep == names
    assert deep[y] is not names[y]
    assert names.pop(x) == 1
    assert names.popitem()[0] is y
    assert not names
    assert WeakIdKeyDictionary({x: 1}).keyrefs()[0]() is x


def test_references_to_tensors():
    x = torch.ones(2)
    reference = TensorWeakRef(x)
    assert reference() is x
    del x
    assert reference() is None
    with pytest.raises(AssertionError, match="int"):
        TensorWeakRef(3)
