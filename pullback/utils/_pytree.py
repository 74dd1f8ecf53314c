"""Nested containers, under the names that torch's users know; core/trees has them."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from pullback.core.trees.paths import (
    GetAttrKey,
    KeyEntry,
    KeyPath,
    MappingKey,
    SequenceKey,
    key_get,
    keystr,
    tree_flatten_with_path,
    tree_leaves_with_path,
    tree_map_with_path,
)
from pullback.core.trees.pytree import (
    SUPPORTED_NODES,
    IsLeaf,
    LeafSpec,
    NodeDef,
    TreeSpec,
    broadcast_prefix,
    deregister_pytree_node,
    is_namedtuple_class,
    node_of,
    only,
    register_pytree_node,
    tree_all,
    tree_any,
    tree_flatten,
    tree_iter,
    tree_leaves,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_structure,
    tree_unflatten,
    treespec_pprint,
)
from pullback.core.trees.text import NAMEDTUPLES, treespec_dumps, treespec_loads

__all__ = [
    "BUILTIN_TYPES",
    "SUPPORTED_NODES",
    "Context",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "TreeSpec",
    "arg_tree_leaves",
    "broadcast_prefix",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "map_only",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dict",
    "treespec_dumps",
    "treespec_leaf",
    "treespec_loads",
    "treespec_pprint",
    "treespec_tuple",
]

PyTree: TypeAlias = Any
Context: TypeAlias = Any
PyTreeSpec = TreeSpec
BUILTIN_TYPES = frozenset((tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque))


# Leaves of some types ---------------------------------------------------------------------------


def map_only(kind: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function applies to values of some types, others come back unchanged.

    >>> map_only(int)(lambda n: -n)("a")
    'a'
    """
    return lambda func: only(kind, func)


def tree_map_only_(kind: Any, /, func: Any, tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func` for the leaves of some types, for its effect; the tree itself is returned."""
    return tree_map_(only(kind, func), tree, is_leaf=is_leaf)


def tree_any_only(kind: Any, /, pred: Any, tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for some leaf of some types."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, kind))


def tree_all_only(kind: Any, /, pred: Any, tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for every leaf of some types."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, kind))


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether something is a leaf and no container."""
    return (is_leaf is not None and is_leaf(tree)) or node_of(tree) is None


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments of a call."""
    return tree_leaves((args, kwargs))


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    return broadcast_prefix(tree, None, treespec, is_leaf)


# How containers are taken apart and put together, for classes of users that are alike.
_tuple_flatten, _tuple_unflatten = SUPPORTED_NODES[tuple][1:3]
_list_flatten, _list_unflatten = SUPPORTED_NODES[list][1:3]
_dict_flatten, _dict_unflatten = SUPPORTED_NODES[dict][1:3]
_ordereddict_flatten, _ordereddict_unflatten = SUPPORTED_NODES[OrderedDict][1:3]
_namedtuple_flatten, _namedtuple_unflatten = SUPPORTED_NODES[namedtuple][1:3]


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], Any]:
    values, keys = _dict_flatten(d)
    return [(MappingKey(key), value) for key, value in zip(keys, values, strict=True)], keys


def _list_flatten_with_keys(d: Any) -> tuple[list[tuple[SequenceKey, Any]], Any]:
    return [(SequenceKey(place), value) for place, value in enumerate(d)], None


_tuple_flatten_with_keys = _list_flatten_with_keys


def _get_node_type(tree: Any) -> Any:
    return namedtuple if is_namedtuple_class(type(tree)) else type(tree)


def _is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    return tree_is_leaf(tree, is_leaf)


# Structures -------------------------------------------------------------------------------------


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return LeafSpec()


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of such parts."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """The structure of a dict of such parts."""
    parts = dict(mapping, **kwargs)
    return TreeSpec(dict, list(parts), list(parts.values()))


# Classes ----------------------------------------------------------------------------------------


def _register_pytree_node(
    cls: type, flatten_fn: Any, unflatten_fn: Any, *_text_functions: Any, **names: Any
) -> None:
    """An old name of `register_pytree_node`."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **names)


_private_register_pytree_node = _register_pytree_node
_deregister_pytree_node = deregister_pytree_node


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a named tuple the name under which structures with it are written."""
    NAMEDTUPLES[cls] = serialized_type_name


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make a dataclass a container of its fields; those that are None are context.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    ...     y: int
    >>> register_dataclass(Point)
    >>> tree_map(lambda n: n + 1, Point(1, 2))
    Point(x=2, y=3)
    """
    names = _checked_fields(cls, field_names, drop_field_names or [])

    def keyed(value: Any) -> tuple[list[tuple[GetAttrKey, Any]], Any]:
        given = [(name, getattr(value, name)) for name in names]
        there = [(GetAttrKey(name), part) for name, part in given if part is not None]
        return there, [
            [name for name, part in given if part is not None],
            [name for name, part in given if part is None],
        ]

    def flatten(value: Any) -> tuple[list[Any], Any]:
        pairs, context = keyed(value)
        return [part for _, part in pairs], context

    def unflatten(parts: Iterable[Any], context: Any) -> Any:
        there, missing = context
        return cls(**dict(zip(there, parts, strict=True)), **dict.fromkeys(missing))

    register_pytree_node(
        *(cls, flatten, unflatten),
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=keyed,
    )


def _checked_fields(cls: type, names: list[str] | None, dropped: list[str]) -> list[str]:
    """The fields that are parts; ValueError where those named are not those of the class."""
    known = None
    if dataclasses.is_dataclass(cls):
        known = [field.name for field in dataclasses.fields(cls) if field.init]
    if names is None:
        if known is None:
            raise ValueError(
                f"register_dataclass: {cls!r} is no dataclass; say what it is made from "
                "(field_names)."
            )
        return known
    if known is not None:
        missing = [name for name in known if name not in names and name not in dropped]
        unknown = [name for name in names if name not in known]
        if missing or unknown:
            raise ValueError(
                f"register_dataclass: field_names must be the fields of {cls.__name__} that its "
                f"__init__ takes, {known}; missing {missing}, unknown {unknown}. Fields that are "
                "no parts are named in drop_field_names."
            )
    return [name for name in names if name not in dropped]


def register_constant(cls: type) -> None:
    """Make values of a class part of the structure: trees with unequal ones differ.

    The class has `__eq__` and `__hash__` of its own, by which structures are compared.

    >>> class Unit(str):
    ...     pass
    >>> register_constant(Unit)
    >>> tree_leaves([Unit("m"), 2])
    [2]
    >>> tree_structure([Unit("m"), 2]) == tree_structure([Unit("s"), 3])
    False
    """
    for name, default in (("__eq__", object.__eq__), ("__hash__", object.__hash__)):
        if getattr(cls, name) in (default, None):
            raise TypeError(
                f"register_constant: {cls.__name__} has no {name} of its own, so structures with "
                "its values could not be compared. Define it, or use a frozen dataclass."
            )
    register_pytree_node(
        cls,
        lambda value: ([], ConstantNode(value)),
        lambda parts, context: context.value,
        flatten_with_keys_fn=lambda value: ([], ConstantNode(value)),
    )


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a constant: the constant."""

    value: Any


def _is_constant_holder(spec: TreeSpec) -> bool:
    """Whether a structure is a constant."""
    return isinstance(spec.context, ConstantNode)


def _retrieve_constant(spec: TreeSpec) -> Any:
    """The constant that a structure is."""
    return tree_unflatten([], spec)


def is_namedtuple(obj: Any) -> bool:
    """Whether something is a named tuple, or the class of one."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether something is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether a class is one of C's named tuples, as that of `time.localtime()`."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(
            isinstance(getattr(cls, name, None), int)
            for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
        )
    )


def is_structseq(obj: Any) -> bool:
    """Whether something is one of C's named tuples, or the class of one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: Any) -> bool:
    """Whether something is one of C's named tuples."""
    return is_structseq_class(type(obj))
