"""Where in a tree a leaf is: paths of keys, and maps that are told them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from pullback.core.size import Size
from pullback.core.trees.pytree import IsLeaf, NodeDef, TreeSpec, node_of, tree_flatten

__all__ = [
    *("GetAttrKey", "KeyEntry", "KeyPath", "MappingKey", "SequenceKey", "key_get", "keystr"),
    *("tree_flatten_with_path", "tree_leaves_with_path", "tree_map_with_path"),
]


class KeyEntry(Protocol):
    """One step of a path."""

    def get(self, parent: Any) -> Any:
        """What lies there in a container."""


KeyPath: TypeAlias = tuple[KeyEntry, ...]


@dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What lies there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What lies there."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """A field of a named tuple or another object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What lies there."""
        return getattr(obj, self.name)


def _by_place(value: Any) -> Iterator[tuple[KeyEntry, Any]]:
    return ((SequenceKey(place), part) for place, part in enumerate(value))


def _by_key(value: Any) -> Iterator[tuple[KeyEntry, Any]]:
    return ((MappingKey(key), part) for key, part in value.items())


def _by_field(value: Any) -> Iterable[tuple[KeyEntry, Any]]:
    names = map(GetAttrKey, type(value)._fields)
    return zip(names, value, strict=True)


_STEPS: dict[Any, Callable[[Any], Iterable[tuple[KeyEntry, Any]]]] = {
    **dict.fromkeys((tuple, list, deque, Size), _by_place),
    **dict.fromkeys((dict, OrderedDict, defaultdict), _by_key),
    namedtuple: _by_field,
}


def _steps(node: NodeDef, value: Any) -> Iterable[tuple[KeyEntry, Any]]:
    if node.flatten_with_keys_fn is not None:
        pairs: Iterable[tuple[KeyEntry, Any]] = node.flatten_with_keys_fn(value)[0]
        return pairs
    known = _STEPS.get(node.type)
    if known is None:
        raise ValueError(
            f"{node.type.__name__} has no paths: pass flatten_with_keys_fn to register_pytree_node."
        )
    return known(value)


def _walk(tree: Any, path: KeyPath, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    node = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if node is None:
        yield path, tree
        return
    for key, part in _steps(node, tree):
        yield from _walk(part, (*path, key), is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves in order, each with its path."""
    return list(_walk(tree, (), is_leaf))


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves in order, each with its path, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_flatten(tree, is_leaf)[1]


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """As `tree_map`, where `func` gets the path first.

    >>> tree_map_with_path(lambda path, leaf: keystr(path), {"a": [1, 2]})
    {'a': ["['a'][0]", "['a'][1]"]}
    """
    found, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [*zip(*found, strict=True)] if found else [(), ()]
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*row) for row in zip(*columns, *others, strict=True)])


def keystr(kp: KeyPath) -> str:
    """A path as one would write it in Python."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What lies at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
