"""Structures of trees as text (JSON, torch's format) and back."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from enum import Enum
from importlib import import_module
from typing import Any

from pullback.core.trees.pytree import SUPPORTED_NODES, LeafSpec, TreeSpec

__all__ = ["treespec_dumps", "treespec_loads"]

_PROTOCOL = 1
_NAMES: dict[Any, str] = {
    tuple: "builtins.tuple",
    list: "builtins.list",
    dict: "builtins.dict",
    OrderedDict: "collections.OrderedDict",
    defaultdict: "collections.defaultdict",
    deque: "collections.deque",
    namedtuple: "collections.namedtuple",
}
# Class of a named tuple -> the name that it has in texts.
NAMEDTUPLES: dict[type, str] = {}


def _name_of(kind: Any) -> str:
    name = _NAMES.get(kind) or SUPPORTED_NODES[kind].serialized_type_name
    if name is None:
        raise NotImplementedError(
            f"{kind.__name__} has no name to be written under: pass serialized_type_name to "
            "register_pytree_node."
        )
    return name


def _context_as_text(kind: Any, context: Any) -> Any:
    if kind is defaultdict:
        factory, keys = context
        return {
            "default_factory_module": getattr(factory, "__module__", None),
            "default_factory_name": getattr(factory, "__qualname__", None),
            "dict_context": keys,
        }
    if kind is namedtuple:
        if context not in NAMEDTUPLES:
            raise NotImplementedError(
                f"{context.__name__} has no name to be written under: call "
                "_register_namedtuple(cls, serialized_type_name=...)."
            )
        return {"class_name": NAMEDTUPLES[context]}
    own = SUPPORTED_NODES[kind].to_dumpable_context
    if own is not None:
        return own(context)
    try:
        return json.dumps(context, default=_enum_as_dict)
    except TypeError:
        raise TypeError(
            f"The context of {kind.__name__}, {context!r}, is not JSON; pass to_dumpable_context "
            "to register_pytree_node."
        ) from None


def _context_of_text(kind: Any, text: Any) -> Any:
    if kind is defaultdict:
        module, name = text["default_factory_module"], text["default_factory_name"]
        factory = None if module is None else getattr(import_module(module), name)
        return [factory, text["dict_context"]]
    if kind is namedtuple:
        return next(cls for cls, name in NAMEDTUPLES.items() if name == text["class_name"])
    own = SUPPORTED_NODES[kind].from_dumpable_context
    return json.loads(text, object_hook=_enum_of_dict) if own is None else own(text)


def _enum_as_dict(value: Any) -> dict[str, Any]:
    """A member of an enum, by torch's mark; keys of dicts may be such."""
    if not isinstance(value, Enum):
        raise TypeError(f"{value!r} is not JSON")
    kind = type(value)
    path = f"{kind.__module__}:{kind.__qualname__}"
    return {"__enum__": True, "fqn": path, "name": value.name}


def _enum_of_dict(data: dict[str, Any]) -> Any:
    if data.get("__enum__") is not True:
        return data
    module, _, name = data["fqn"].partition(":")
    kind: Any = import_module(module)
    for part in name.split("."):
        kind = getattr(kind, part)
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise ValueError(f"treespec_loads: {data['fqn']} is no enum.")
    return kind[data["name"]]


def _as_dict(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    return {
        "type": _name_of(spec.type),
        "context": _context_as_text(spec.type, spec.context),
        "children_spec": [_as_dict(child) for child in spec.children_specs],
    }


def _of_dict(data: dict[str, Any]) -> TreeSpec:
    if data["type"] is None:
        return LeafSpec()
    kinds = [kind for kind, name in _NAMES.items() if name == data["type"]]
    kinds += [k for k, node in SUPPORTED_NODES.items() if node.serialized_type_name == data["type"]]
    if not kinds:
        raise NotImplementedError(
            f"No class is registered as {data['type']!r}; register it before reading."
        )
    kind = kinds[0]
    children = [_of_dict(child) for child in data["children_spec"]]
    return TreeSpec(kind, _context_of_text(kind, data["context"]), children)


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """A structure as JSON, which torch reads too.

    >>> from pullback.core.trees.pytree import tree_structure
    >>> treespec_dumps(tree_structure([]))
    '[1, {"type": "builtins.list", "context": "null", "children_spec": []}]'
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps: expected a TreeSpec, got {type(treespec).__name__}.")
    if protocol not in (None, _PROTOCOL):
        raise ValueError(f"treespec_dumps: protocol {protocol} is unknown; there is {_PROTOCOL}.")
    return json.dumps([_PROTOCOL, _as_dict(treespec)], default=_enum_as_dict)


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    protocol, data = json.loads(serialized, object_hook=_enum_of_dict)
    if protocol != _PROTOCOL:
        raise ValueError(f"treespec_loads: protocol {protocol} is unknown; there is {_PROTOCOL}.")
    return _of_dict(data)
