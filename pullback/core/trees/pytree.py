"""Nested containers of tensors: taking them apart into leaves and putting them together again.

Tuples, lists, dicts (and OrderedDict, defaultdict), deques, named tuples, sizes and registered
classes are containers; everything else, None included, is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pullback.core.size import Size

__all__ = [
    *("LeafSpec", "TreeSpec", "register_pytree_node", "tree_all", "tree_any", "tree_flatten"),
    *("tree_iter", "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_structure"),
    *("tree_unflatten", "treespec_pprint"),
]

IsLeaf = Callable[[Any], bool] | None


# What is a container ----------------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How a class is taken apart and put together; `context` is what is not a child."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Any, Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None
    serialized_type_name: str | None = None
    to_dumpable_context: Callable[[Any], Any] | None = None
    from_dumpable_context: Callable[[Any], Any] | None = None


def _parts(value: Any) -> tuple[list[Any], None]:
    return list(value), None


def _values(value: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(value.values()), list(value)


def _default_values(value: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    return list(value.values()), [value.default_factory, list(value)]


SUPPORTED_NODES: dict[Any, NodeDef] = {
    node.type: node
    for node in (
        NodeDef(tuple, _parts, lambda parts, _: tuple(parts)),
        NodeDef(list, _parts, lambda parts, _: list(parts)),
        NodeDef(Size, _parts, lambda parts, _: Size(parts)),
        NodeDef(dict, _values, lambda parts, keys: dict(zip(keys, parts, strict=True))),
        NodeDef(
            OrderedDict, _values, lambda parts, keys: OrderedDict(zip(keys, parts, strict=True))
        ),
        NodeDef(
            defaultdict,
            _default_values,
            lambda parts, context: defaultdict(context[0], zip(context[1], parts, strict=True)),
        ),
        NodeDef(
            deque,
            lambda value: (list(value), value.maxlen),
            lambda parts, longest: deque(parts, maxlen=longest),
        ),
        NodeDef(
            namedtuple, lambda value: (list(value), type(value)), lambda parts, kind: kind(*parts)
        ),
    )
}
DICTS = frozenset((dict, OrderedDict, defaultdict))


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None,
) -> None:
    """Make a class a container: `flatten_fn(obj) -> (children, context)` and its inverse.

    The names are for writing structures as text; `flatten_with_keys_fn` gives (key, child) pairs.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls.__name__} is registered as a pytree node already.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"{cls.__name__}: give to_dumpable_context and from_dumpable_context, or neither."
        )
    SUPPORTED_NODES[cls] = NodeDef(
        *(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn),
        *(serialized_type_name, to_dumpable_context, from_dumpable_context),
    )


def deregister_pytree_node(cls: type) -> None:
    """Make a class a leaf again."""
    if cls not in SUPPORTED_NODES:
        raise ValueError(f"{cls.__name__} is not registered as a pytree node.")
    del SUPPORTED_NODES[cls]


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class was made by `namedtuple`."""
    fields = getattr(cls, "_fields", None)
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(fields, tuple)


def node_of(value: Any) -> NodeDef | None:
    """How a container is taken apart; None for a leaf."""
    kind = type(value)
    known = SUPPORTED_NODES.get(kind)
    if known is None and isinstance(value, tuple) and is_namedtuple_class(kind):
        return SUPPORTED_NODES[namedtuple]
    return known


# Structures -------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a nested container, without its leaves."""

    __slots__ = (*("children_specs", "context", "num_children", "num_leaves", "num_nodes", "type"),)

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_children = len(children_specs)
        self.num_nodes: int = 1 + sum([child.num_nodes for child in children_specs])
        self.num_leaves: int = sum([child.num_leaves for child in children_specs])

    def is_leaf(self) -> bool:
        """Whether this is a leaf and not a container."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of what the container holds."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of one thing that the container holds."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The container of this structure with these leaves."""
        given = leaves if isinstance(leaves, list | tuple) else list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"tree_unflatten: {len(given)} leaves for a structure of {self.num_leaves}: {self}."
            )
        return _built(self, iter(given))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What a tree that is like this one, or goes on below, has where this one has leaves."""
        found: list[Any] = []
        _match(self, tree, found)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and self.num_leaves == other.num_leaves
            and self.context == other.context
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self) -> str:
        return _described(self, 0)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1


_LEAF = LeafSpec()


def _described(spec: TreeSpec, indent: int) -> str:
    if spec.type is None:
        return "*"
    inner = indent + 2
    children = f",\n{' ' * inner}".join([_described(c, inner) for c in spec.children_specs])
    return f"TreeSpec({spec.type.__name__}, {spec.context}, [{children}])"


def _built(spec: TreeSpec, leaves: Iterator[Any]) -> Any:
    if spec.type is None:
        return next(leaves)
    parts = [_built(child, leaves) for child in spec.children_specs]
    return SUPPORTED_NODES[spec.type].unflatten_fn(parts, spec.context)


def _match(spec: TreeSpec, tree: Any, found: list[Any]) -> None:
    if spec.type is None:
        found.append(tree)
        return
    node = node_of(tree)
    kind = None if node is None else node.type
    if kind is not spec.type and not (kind in DICTS and spec.type in DICTS):
        raise ValueError(
            f"The trees differ in structure: a {type(tree).__name__} where the other has a "
            f"{spec.type.__name__}."
        )
    assert node is not None
    children, context = node.flatten_fn(tree)
    children = list(children)
    if len(children) != spec.num_children:
        raise ValueError(
            f"The trees differ in structure: {len(children)} children where the other has "
            f"{spec.num_children}."
        )
    if kind in DICTS:
        children = _in_order(spec, tree)
    elif context != spec.context:
        raise ValueError(
            f"The trees differ in structure: {context} where the other has {spec.context}."
        )
    for part, child in zip(children, spec.children_specs, strict=True):
        _match(child, part, found)


def _in_order(spec: TreeSpec, tree: dict[Any, Any]) -> list[Any]:
    """The values of a dict in the order of another's keys."""
    keys = spec.context[1] if spec.type is defaultdict else spec.context
    if tree.keys() != set(keys):
        raise ValueError(
            f"The trees differ in structure: keys {list(tree)} where the other has {keys}."
        )
    return [tree[key] for key in keys]


# Taking apart and putting together --------------------------------------------------------------


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Leaves in order, and the structure they came from.

    >>> tree_flatten({"a": 1, "b": (2,)})
    ([1, 2], TreeSpec(dict, ['a', 'b'], [*,
      TreeSpec(tuple, None, [*])]))
    """
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    specs = [_flatten_into(child, leaves, is_leaf) for child in children]
    return TreeSpec(node.type, context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The container of structure `treespec` with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten: the second argument must be a TreeSpec, got "
            f"{type(treespec).__name__}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves in order."""
    return list(tree_iter(tree, is_leaf))


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves in order, one by one."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        node = None if is_leaf is not None and is_leaf(one) else node_of(one)
        if node is None:
            yield one
        else:
            waiting.extend(reversed(list(node.flatten_fn(one)[0])))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure without the leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply `func` to each leaf (and what other trees have there), keeping the structure.

    >>> tree_map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]})
    {'x': [11, 22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *[spec.flatten_up_to(rest) for rest in rests]]
    return spec.unflatten([func(*row) for row in zip(*columns, strict=True)])


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func` for each leaf, for its effect; the tree itself is returned."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *[spec.flatten_up_to(rest) for rest in rests]]
    for row in zip(*columns, strict=True):
        func(*row)
    return tree


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply `func` to the leaves of some types, or that a function selects; others stay."""
    return tree_map(only(kind, func), tree, is_leaf=is_leaf)


def only(kind: Any, func: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`func` for values of some types, or that a function selects; others unchanged."""
    is_type = isinstance(kind, type | tuple) or not callable(kind)
    chosen = (lambda leaf: isinstance(leaf, kind)) if is_type else kind
    return lambda leaf: func(leaf) if chosen(leaf) else leaf


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def broadcast_prefix(
    prefix: Any, tree: Any, treespec: TreeSpec | None = None, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """A value for each leaf of `tree` from one that may end earlier; None if it does not fit."""
    spec = tree_structure(tree) if treespec is None else treespec
    values: list[Any] = []
    return values if _spread(prefix, spec, values, is_leaf) else None


def _spread(part: Any, below: TreeSpec, values: list[Any], is_leaf: IsLeaf) -> bool:
    node = None if is_leaf is not None and is_leaf(part) else node_of(part)
    if node is None:
        values.extend([part] * below.num_leaves)
        return True
    children, context = node.flatten_fn(part)
    children = list(children)
    if node.type is not below.type or len(children) != below.num_children:
        return False
    if context != below.context:
        return False
    pairs = zip(children, below.children_specs, strict=True)
    return all(_spread(child, spec, values, is_leaf) for child, spec in pairs)


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as text, leaves as `*`.

    >>> treespec_pprint(tree_structure({"a": (1, [2])}))
    "{'a': (*, [*])}"
    """
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


class _Star:
    def __repr__(self) -> str:
        return "*"
