"""Nested containers of tensors: taking them apart into leaves and putting them together again.

Tuples, lists, dicts (and OrderedDict, defaultdict), deques, named tuples and registered classes are
containers; everything else, None included, is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = [
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
    "treespec_pprint",
]


class _Container(NamedTuple):
    """How a class is taken apart and put together; `context` is what is not a child."""

    flatten: Callable[[Any], tuple[list[Any], Any]]
    unflatten: Callable[[list[Any], Any], Any]


def _flatten_dict(value: dict[Any, Any]) -> tuple[list[Any], Any]:
    return list(value.values()), list(value.keys())


_CONTAINERS: dict[type, _Container] = {
    tuple: _Container(lambda v: (list(v), None), lambda c, _: tuple(c)),
    list: _Container(lambda v: (list(v), None), lambda c, _: list(c)),
    dict: _Container(_flatten_dict, lambda c, keys: dict(zip(keys, c, strict=True))),
    OrderedDict: _Container(_flatten_dict, lambda c, keys: OrderedDict(zip(keys, c, strict=True))),
    defaultdict: _Container(
        lambda v: (list(v.values()), (v.default_factory, list(v.keys()))),
        lambda c, context: defaultdict(context[0], zip(context[1], c, strict=True)),
    ),
    deque: _Container(lambda v: (list(v), v.maxlen), lambda c, maxlen: deque(c, maxlen=maxlen)),
}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_fn: Callable[[list[Any], Any], Any],
    **names: Any,
) -> None:
    """Make a class a container: `flatten_fn(obj) -> (children, context)` and its inverse."""
    if cls in _CONTAINERS:
        raise ValueError(f"{cls.__name__} is registered as a pytree node already.")

    def flatten(value: Any) -> tuple[list[Any], Any]:
        children, context = flatten_fn(value)
        return list(children), context

    _CONTAINERS[cls] = _Container(flatten, unflatten_fn)


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def _container_of(value: Any) -> tuple[Any, _Container] | None:
    kind = type(value)
    known = _CONTAINERS.get(kind)
    if known is not None:
        return kind, known
    if _is_namedtuple(value):
        return kind, _Container(lambda v: (list(v), None), lambda c, _: kind(*c))
    return None


class TreeSpec:
    """The structure of a nested container, without its leaves."""

    __slots__ = ("children", "container", "context", "num_leaves", "type")

    def __init__(
        self, kind: Any, context: Any, children: list[TreeSpec], container: _Container | None
    ) -> None:
        self.type = kind
        self.context = context
        self.children = children
        self.container = container
        self.num_leaves: int = sum(c.num_leaves for c in children) if kind is not None else 1

    def is_leaf(self) -> bool:
        """Whether this is a leaf and not a container."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and self.context == other.context
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children)))

    def __repr__(self) -> str:
        return f"TreeSpec({treespec_pprint(self)})"


_LEAF = TreeSpec(None, None, [], None)


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """Leaves in order, and the structure they came from.

    >>> tree_flatten({"a": 1, "b": (2, 3)})
    ([1, 2, 3], TreeSpec({'a': *, 'b': (*, *)}))
    """
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves)


def _flatten_into(tree: Any, leaves: list[Any]) -> TreeSpec:
    found = _container_of(tree)
    if found is None:
        leaves.append(tree)
        return _LEAF
    kind, container = found
    children, context = container.flatten(tree)
    return TreeSpec(kind, context, [_flatten_into(child, leaves) for child in children], container)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The container of structure `treespec` with these leaves."""
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten: {len(given)} leaves for a structure of {treespec.num_leaves}: "
            f"{treespec}."
        )
    remaining = iter(given)

    def build(spec: TreeSpec) -> Any:
        if spec.container is None:
            return next(remaining)
        return spec.container.unflatten([build(child) for child in spec.children], spec.context)

    return build(treespec)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree)[0]


def tree_structure(tree: Any) -> TreeSpec:
    """The structure without the leaves."""
    return tree_flatten(tree)[1]


def tree_map(fn: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """Apply `fn` to each leaf (and those of equal trees beside it), keeping the structure."""
    leaves, spec = tree_flatten(tree)
    columns = [leaves]
    for rest in rests:
        others, other_spec = tree_flatten(rest)
        if other_spec != spec:
            raise ValueError(
                f"tree_map: the trees differ in structure: {spec} ({spec.num_leaves} leaves) and "
                f"{other_spec} "
                f"({other_spec.num_leaves} leaves)."
            )
        columns.append(others)
    return tree_unflatten([fn(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_only(kind: Any, fn: Callable[[Any], Any], tree: Any) -> Any:
    """Apply `fn` to the leaves of one type; others stay."""
    return tree_map(lambda leaf: fn(leaf) if isinstance(leaf, kind) else leaf, tree)


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether `pred` holds for some leaf."""
    return any(pred(leaf) for leaf in tree_leaves(tree))


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether `pred` holds for every leaf."""
    return all(pred(leaf) for leaf in tree_leaves(tree))


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any] | None:
    """A value for each leaf of `tree` from one that may end earlier; None if it does not fit."""
    spec = tree_structure(tree)
    values: list[Any] = []

    def spread(part: Any, below: TreeSpec) -> bool:
        found = _container_of(part)
        if found is None:
            values.extend([part] * below.num_leaves)
            return True
        kind, container = found
        children, context = container.flatten(part)
        if kind is not below.type or len(children) != len(below.children):
            return False
        if context != below.context:
            return False
        return all(spread(c, b) for c, b in zip(children, below.children, strict=True))

    return values if spread(prefix, spec) else None


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as text, leaves as `*`."""
    return _text(treespec)


class _Star:
    def __repr__(self) -> str:
        return "*"


def _text(spec: TreeSpec) -> str:
    star = _Star()
    return repr(tree_unflatten([star] * spec.num_leaves, spec))
