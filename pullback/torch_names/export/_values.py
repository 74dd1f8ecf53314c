"""Values of a graph as JSON, and back: numbers, texts, dtypes and the like; nothing that runs."""

from __future__ import annotations

import keyword
from collections import OrderedDict
from typing import Any

import pullback
from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.size import Size
from pullback.core.trees import pytree
from pullback.fx.node import Node

__all__ = ["Decoder", "decoded_spec", "encoded", "encoded_spec", "is_name", "refused"]

# Things that exist once, by the name that `torch` has for them.
_NAMED_TYPES: tuple[Any, ...] = (dtype, type(pullback.strided), type(pullback.contiguous_format))
_NAMES = (
    *("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"),
    *("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"),
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
)
_PLAIN = (bool, int, str, type(None))
_DEEPEST = 50


def refused(why: str) -> ValueError:
    """The error of a file that is not what it should be."""
    return ValueError(f"This is no exported program that can be loaded: {why}.")


def is_name(value: Any) -> bool:
    """Whether something can stand as a name in the code that is written of a graph."""
    return isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)


def encoded(value: Any, what: str) -> Any:
    """A value as JSON has it; `what` is whose it is, for the error."""
    if isinstance(value, Node):
        return {"node": value.name}
    if type(value) in _PLAIN:
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        kind = "list" if isinstance(value, list) else "size" if type(value) is Size else "tuple"
        return {kind: [encoded(one, what) for one in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": [[key, encoded(one, what)] for key, one in value.items()]}
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return {"slice": [encoded(one, what) for one in parts]}
    if isinstance(value, device):
        return {"device": str(value)}
    if isinstance(value, _NAMED_TYPES):
        named = [name for name in _NAMES if hasattr(pullback, name)]  # some want ml_dtypes
        for name in named:
            if getattr(pullback, name) is value:
                return {"named": name}
    raise ValueError(
        f"save: {what} has {type(value).__name__} among its arguments, which a file cannot hold. "
        "run_decompositions() may give a program without it."
    )


class Decoder:
    """Values of a file, where nodes are those made so far."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.nodes = nodes

    def value(self, given: Any, depth: int = 0) -> Any:
        """What `encoded` was given; ValueError for everything else."""
        if type(given) in _PLAIN:
            return given
        if depth > _DEEPEST or type(given) is not dict or len(given) != 1:
            raise refused("a value in it has no known form")
        ((kind, held),) = given.items()
        try:
            return self._of_kind(kind, held, depth + 1)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise refused(f"a {kind} in it has no known form") from error

    def _of_kind(self, kind: str, held: Any, depth: int) -> Any:
        match kind:
            case "node":
                return self.nodes[held]
            case "float":
                return float.fromhex(held)
            case "complex":
                real, imaginary = held
                return complex(float.fromhex(real), float.fromhex(imaginary))
            case "list":
                return [self.value(one, depth) for one in _listed(held)]
            case "tuple":
                return tuple(self.value(one, depth) for one in _listed(held))
            case "size":
                return Size([int(self.value(one, depth)) for one in _listed(held)])
            case "dict":
                pairs = [(_text(key), self.value(one, depth)) for key, one in _listed(held)]
                return dict(pairs)
            case "slice":
                start, stop, step = (self.value(one, depth) for one in _listed(held))
                return slice(start, stop, step)
            case "device":
                return device(_text(held))
            case "named" if held in _NAMES:
                return getattr(pullback, held)
        raise refused(f"it has a value of kind {kind!r}")


def _listed(held: Any) -> list[Any]:
    if type(held) is not list:
        raise refused("a list in it is none")
    return held


def _text(held: Any) -> str:
    if type(held) is not str:
        raise refused("a text in it is none")
    return held


# How arguments nest -------------------------------------------------------------------------------

_KINDS: dict[str, Any] = {
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "ordered": OrderedDict,
    "size": Size,
}


def encoded_spec(spec: Any) -> Any:
    """How values nest, as JSON."""
    if spec.is_leaf():
        return None
    children = [encoded_spec(one) for one in spec.children_specs]
    for name, kind in _KINDS.items():
        if spec.type is kind:
            keys = spec.context if kind in (dict, OrderedDict) else None
            if keys is not None and not all(type(key) in (str, int) for key in keys):
                raise ValueError("save: keys of dicts are texts or ints.")
            return [name, keys, children]
    node = pytree.SUPPORTED_NODES.get(spec.type)
    if node is None or node.serialized_type_name is None or node.to_dumpable_context is None:
        raise ValueError(
            f"save: {getattr(spec.type, '__name__', spec.type)} among arguments or results cannot "
            "be written; register the class with torch.export.register_dataclass."
        )
    return [f"!{node.serialized_type_name}", node.to_dumpable_context(spec.context), children]


def decoded_spec(given: Any, depth: int = 0) -> Any:
    """How values nest, from JSON; classes are those that are registered here already."""
    if given is None:
        return pytree.LeafSpec()
    if depth > _DEEPEST or type(given) is not list or len(given) != 3 or type(given[0]) is not str:
        raise refused("its arguments nest in no known form")
    name, context, held = given
    children = [decoded_spec(one, depth + 1) for one in _listed(held)]
    if name.startswith("!"):
        for node in pytree.SUPPORTED_NODES.values():
            if node.serialized_type_name == name[1:] and node.from_dumpable_context is not None:
                return pytree.TreeSpec(node.type, node.from_dumpable_context(context), children)
        raise refused(f"the class {name[1:]!r} among its arguments is not registered here")
    if name not in _KINDS:
        raise refused(f"its arguments nest in a {name!r}")
    if name in ("dict", "ordered"):
        keys = _listed(context)
        if not all(type(key) in (str, int) for key in keys) or len(keys) != len(children):
            raise refused("keys of its arguments have no known form")
    elif context is not None:
        raise refused("its arguments nest in no known form")
    return pytree.TreeSpec(_KINDS[name], context, children)
