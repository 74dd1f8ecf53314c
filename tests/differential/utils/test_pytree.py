"""Trees on torch and on pullback: structures, their texts, paths, maps and what is refused."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

from pullback.utils import _pytree as ours

torch = pytest.importorskip("torch")
import torch.utils._pytree as theirs

Pair = namedtuple("Pair", "a b")
TREES = [
    *(3, None, (), [1, (2, [3])], {"b": 1, "a": (2, None)}, OrderedDict(b=1, a=2)),
    *(defaultdict(list, {"k": 1}), deque([1, 2], maxlen=3), Pair(1, [2]), slice(1, 2), {1, 2}),
    *([[]], {"x": {}}, {"k": [Pair(1, {"z": 2})]}, "text", [None, (None,)]),
]


def outcome(program, side):
    try:
        return program(side)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("tree", TREES, ids=repr)
@pytest.mark.parametrize(
    "program",
    [
        lambda p, tree: p.tree_leaves(tree),
        lambda p, tree: repr(p.tree_structure(tree)),
        lambda p, tree: p.treespec_pprint(p.tree_structure(tree)),
        lambda p, tree: p.treespec_dumps(p.tree_structure(tree)),
        lambda p, tree: [(p.keystr(path), leaf) for path, leaf in p.tree_leaves_with_path(tree)],
        lambda p, tree: p.tree_structure(tree).num_nodes,
        lambda p, tree: p.tree_map(lambda v: (v,), tree),
        lambda p, tree: p.tree_map(id, tree, is_leaf=lambda v: isinstance(v, list)) != tree,
        lambda p, tree: p.tree_leaves(tree, is_leaf=lambda v: isinstance(v, dict)),
        lambda p, tree: p.tree_is_leaf(tree),
        lambda p, tree: p.tree_unflatten([1], p.tree_structure(tree)),
        lambda p, tree: p._broadcast_to_and_flatten((1, 2), p.tree_structure(tree)),
    ],
)
def test_trees(program, tree):
    assert outcome(lambda p: program(p, tree), ours) == outcome(lambda p: program(p, tree), theirs)


@pytest.mark.parametrize("one", TREES, ids=repr)
def test_pairs_of_trees(one):
    for other in TREES:
        for program in (
            lambda p, other=other: p.tree_map(lambda a, b: (a, b), one, other),
            lambda p, other=other: p.tree_structure(one) == p.tree_structure(other),
            lambda p, other=other: p.tree_structure(one).flatten_up_to(other),
        ):
            assert outcome(program, ours) == outcome(program, theirs), (one, other)


@pytest.mark.parametrize("tree", [[1, {"a": (2,)}], OrderedDict(a=[1]), deque([1], maxlen=3)])
def test_each_reads_the_structures_of_the_other(tree):
    text = theirs.treespec_dumps(theirs.tree_structure(tree))
    assert ours.treespec_loads(text) == ours.tree_structure(tree)
    text = ours.treespec_dumps(ours.tree_structure(tree))
    assert theirs.treespec_loads(text) == theirs.tree_structure(tree)
