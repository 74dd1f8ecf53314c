"""Nested containers: flattening, structures, prefixes."""

import dataclasses
import enum
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy
import pytest

import pullback as torch
from pullback.core.trees.pytree import broadcast_prefix
from pullback.utils import _cxx_pytree
from pullback.utils import _pytree as pytree
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


def test_is_leaf_stops_the_descent():
    tree = {"a": [1, 2], "b": (3,)}
    assert tree_leaves(tree, is_leaf=lambda v: isinstance(v, list)) == [[1, 2], 3]
    assert tree_map(len, tree, is_leaf=lambda v: not isinstance(v, dict)) == {"a": 2, "b": 1}
    assert pytree.tree_is_leaf([1], is_leaf=lambda v: True)
    assert not pytree.tree_is_leaf([1])


def test_specs_know_their_parts():
    spec = tree_structure({"a": (1, [2]), "b": None})
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (3, 6, 2)
    assert spec.type is dict
    assert spec.context == ["a", "b"]
    assert spec.child(1) == pytree.LeafSpec()
    assert [child.is_leaf() for child in spec.children()] == [False, True]
    assert spec.unflatten([1, 2, 3]) == {"a": (1, [2]), "b": 3}
    assert spec.flatten_up_to({"b": (3,), "a": (1, [{"x": 2}])}) == [1, {"x": 2}, (3,)]
    for other in ({"a": (1, 2), "b": 3}, {"a": (1, [2])}, {"a": (1, [2]), "c": 3}, [1, 2]):
        with pytest.raises(ValueError, match="structure"):
            spec.flatten_up_to(other)
    assert pytree.treespec_tuple([pytree.treespec_leaf()]) == tree_structure((1,))
    assert pytree.treespec_dict(a=pytree.treespec_leaf()) == tree_structure({"a": 1})


def test_other_trees_may_go_on_below():
    assert tree_map(lambda a, b: (a, b), [1, 2], [(1, 2), 3]) == [(1, (1, 2)), (2, 3)]


def test_named_tuples_of_two_classes_do_not_match():
    with pytest.raises(ValueError, match="structure"):
        tree_map(lambda a, b: a, Pair(1, 2), Other(1, 2))


def test_maps_for_their_effect_and_of_some_types():
    seen = []
    tree = [1, ("a", 2)]
    assert pytree.tree_map_(seen.append, tree) is tree
    assert pytree.tree_map_only_(int, seen.append, tree) is tree
    assert seen == [1, "a", 2, 1, 2]
    assert tree_map_only(lambda v: v == 1, lambda v: -v, [1, 2]) == [-1, 2]
    assert tree_map_only((int, str), lambda v: v * 2, [1, "a", 2.5]) == [2, "aa", 2.5]
    assert pytree.tree_any_only(int, lambda v: v > 1, tree)
    assert not pytree.tree_all_only(int, lambda v: v > 1, tree)
    assert list(pytree.tree_iter(tree)) == [1, "a", 2]
    assert pytree.arg_tree_leaves(1, [2], k=3) == [1, 2, 3]


def test_paths_lead_to_their_leaves():
    tree = {"a": [1, Pair(2, (3,))], "b": deque([4])}
    found, spec = pytree.tree_flatten_with_path(tree)
    assert spec == tree_structure(tree)
    assert [pytree.keystr(path) for path, _ in found] == [
        *("['a'][0]", "['a'][1].a", "['a'][1].b[0]", "['b'][0]")
    ]
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in found)
    named = pytree.tree_map_with_path(lambda p, a, b: (pytree.keystr(p), a + b), [1], [2])
    assert named == [("[0]", 3)]
    assert pytree.tree_map_with_path(lambda p, a: a, {}) == {}


def test_structures_as_text_come_back():
    for tree in TREES[:-1]:
        spec = tree_structure(tree)
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(NotImplementedError, match="Other"):
        pytree.treespec_dumps(tree_structure(Other(1, 2)))
    pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")
    spec = tree_structure(Pair(1, [2]))
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_registered_classes_have_names_and_paths_if_given():
    class Bare(list):
        pass

    class Named(list):
        pass

    def parts(value):
        return list(value), len(value)

    register_pytree_node(Bare, parts, lambda c, _: Bare(c))
    with pytest.raises(NotImplementedError, match="serialized_type_name"):
        pytree.treespec_dumps(tree_structure(Bare([1])))
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_leaves_with_path(Bare([1]))
    register_pytree_node(
        *(Named, parts, lambda c, _: Named(c)),
        serialized_type_name="tests.Named",
        to_dumpable_context=str,
        from_dumpable_context=int,
        flatten_with_keys_fn=lambda v: ([(pytree.GetAttrKey("x"), one) for one in v], len(v)),
    )
    spec = tree_structure(Named([1]))
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    assert pytree.keystr(pytree.tree_leaves_with_path(Named([1]))[0][0]) == ".x"
    for kind in (Bare, Named):
        pytree._deregister_pytree_node(kind)
        assert tree_leaves([kind([1])]) == [[1]]
        with pytest.raises(ValueError, match=kind.__name__):
            pytree._deregister_pytree_node(kind)
    with pytest.raises(ValueError, match="from_dumpable_context"):
        register_pytree_node(Bare, parts, list, to_dumpable_context=str)


def test_dataclasses_are_containers_of_their_fields():
    @dataclasses.dataclass
    class Point:
        x: int
        y: int | None = None

    pytree.register_dataclass(Point)
    assert tree_map(lambda v: v + 1, [Point(1)]) == [Point(2)]
    assert tree_leaves(Point(1, 2)) == [1, 2]
    assert pytree.keystr(pytree.tree_leaves_with_path(Point(1))[0][0]) == ".x"
    pytree._deregister_pytree_node(Point)


def test_sizes_are_containers_and_kinds_of_tuples_are_told_apart():
    assert tree_leaves(torch.Size([2, 3])) == [2, 3]
    assert pytree.is_namedtuple(Pair)
    assert pytree.is_namedtuple_instance(Pair(1, 2))
    assert not pytree.is_namedtuple((1, 2))
    assert pytree.is_structseq(time.localtime())
    assert not pytree.is_structseq_class(Pair)


def test_the_second_version_is_the_same():
    assert _cxx_pytree.tree_map is tree_map


def test_prefixes():
    """T-153"""
    assert broadcast_prefix((0, None), (1, [2, 3])) == [0, None, None]
    assert broadcast_prefix(0, {"a": 1, "b": (2,)}) == [0, 0]
    assert broadcast_prefix((0, 1), (1, 2, 3)) is None
    assert broadcast_prefix((0,), [1]) is None


class _Unit:
    """A value that is compared by its name."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


class _Colour(enum.Enum):
    RED = 1


@pytest.fixture
def unit():
    pytree.register_constant(_Unit)
    yield _Unit
    del pytree.SUPPORTED_NODES[_Unit]


def test_constants_are_part_of_the_structure(unit):
    leaves, spec = tree_flatten([unit("m"), 2])
    assert leaves == [2]
    assert pytree.tree_unflatten([5], spec)[0].name == "m"
    assert spec == tree_flatten([unit("m"), 3])[1]
    assert spec != tree_flatten([unit("s"), 2])[1]


def test_constants_must_be_comparable():
    class Bare:
        pass

    for kind in (Bare, list):
        with pytest.raises(TypeError, match="of its own"):
            pytree.register_constant(kind)


def test_keys_of_enums_are_written_and_read():
    spec = tree_flatten({_Colour.RED: 1, "b": [2]})[1]
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    text = pytree.treespec_dumps(spec).replace("_Colour", "_Unit")
    with pytest.raises(ValueError, match="is no enum"):
        pytree.treespec_loads(text)
    factory = tree_flatten(defaultdict(list, {_Colour.RED: 1}))[1]
    assert pytree.treespec_loads(pytree.treespec_dumps(factory)) == factory


@pytest.mark.parametrize("names", [["x"], ["x", "y", "q"], ["x", "y", "z"]])
def test_fields_that_are_not_the_classes_are_refused(names):
    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 3
        z: int = dataclasses.field(default=4, init=False)

    with pytest.raises(ValueError, match="field_names"):
        pytree.register_dataclass(Point, field_names=names)
    with pytest.raises(ValueError, match="no dataclass"):
        pytree.register_dataclass(_Unit)
