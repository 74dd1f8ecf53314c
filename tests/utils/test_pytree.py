"""Nested containers: flattening, structures, prefixes."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy
import pytest

from pullback.core.pytree import broadcast_prefix
from pullback.utils._pytree import (
    register_pytree_node,
    tree_all,
    tree_any,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
    treespec_pprint,
)

Pair = namedtuple("Pair", "a b")
Other = namedtuple("Other", "a b")
TREES = [
    3,
    None,
    (),
    [1, (2, [3])],
    {"b": 1, "a": (2, None)},
    OrderedDict(b=1, a=2),
    defaultdict(list, {"k": 1}),
    deque([1, 2], maxlen=3),
    Pair(1, [2]),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_unflatten_inverts_flatten(tree):
    """T-151"""
    leaves, spec = tree_flatten(tree)
    again = tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec == tree_structure(tree)
    assert hash(spec) == hash(tree_structure(tree))


def test_dicts_keep_their_order_and_none_is_a_leaf():
    """T-41, T-154"""
    assert tree_leaves({"b": 1, "a": [None, 2]}) == [1, None, 2]


def test_strings_and_arrays_are_leaves():
    """T-154"""
    array = numpy.ones(2)
    assert tree_leaves(["ab", array]) == ["ab", array]


def test_structures_tell_containers_apart():
    """T-152"""
    assert tree_structure([1]) != tree_structure((1,))
    assert tree_structure(Pair(1, 2)) != tree_structure(Other(1, 2))
    assert treespec_pprint(tree_structure({"a": (1, [2])})) == "{'a': (*, [*])}"


def test_maps():
    """T-151"""
    assert tree_map(lambda a, b: a + b, {"k": (1, 2)}, {"k": (10, 20)}) == {"k": (11, 22)}
    assert tree_map_only(int, str, [1, "a", 2.0]) == ["1", "a", 2.0]
    assert tree_any(lambda v: v > 1, [1, (2,)])
    assert not tree_all(lambda v: v > 1, [1, (2,)])
    with pytest.raises(ValueError, match="structure"):
        tree_map(lambda a, b: a, [1], [1, 2])
    with pytest.raises(ValueError, match="leaves"):
        tree_unflatten([1], tree_structure([1, 2]))


def test_classes_are_registered_once():
    """T-41, T-151"""

    class Box:
        def __init__(self, content):
            self.content = content

    assert len(tree_leaves([Box(1)])) == 1
    register_pytree_node(Box, lambda b: ([b.content], None), lambda c, _: Box(*c))
    assert tree_map(lambda v: v + 1, Box((1, 2))).content == (2, 3)
    with pytest.raises(ValueError, match="Box"):
        register_pytree_node(Box, lambda b: ([], None), lambda c, _: None)


def test_prefixes():
    """T-153"""
    assert broadcast_prefix((0, None), (1, [2, 3])) == [0, None, None]
    assert broadcast_prefix(0, {"a": 1, "b": (2,)}) == [0, 0]
    assert broadcast_prefix((0, 1), (1, 2, 3)) is None
    assert broadcast_prefix((0,), [1]) is None
