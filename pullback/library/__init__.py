"""Operators: those that users define, with their own autograd.

`custom_op` is the way in; `Library`, `define` and `impl` are what lies below it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public

_PLACES = {
    "pullback.library.definition": "CustomOpDef custom_op",
    "pullback.library.schema.infer": "infer_schema",
    "pullback.library.call.fake": "get_ctx",
    "pullback.library.call.fallback": "get_autograd_fallback_mode set_autograd_fallback_mode",
    "pullback.amp.autocast_mode": "autocast",
    "pullback.amp.state": "is_autocast_enabled",
    "pullback.library.call.kernels": "fallthrough_kernel",
    "pullback.library.overload": "OpOverload OpOverloadPacket",
    "pullback.library.schema.tags": "Tag",
    "pullback.library.functions": """
        impl_abstract register_autocast register_autograd register_fake register_kernel
        register_torch_dispatch register_vmap
    """,
    "pullback.library.low_level": """
        Library _scoped_library define get_kernel impl
    """,
    "pullback.library.operator_check": "OpCheckError opcheck",
}
_FOUND = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = sorted(name for name in _FOUND if not name.startswith("_"))


def __getattr__(name: str) -> Any:
    if name not in _FOUND:
        raise absent(__name__, name)
    value = getattr(import_module(_FOUND[name]), name)
    globals()[name] = value
    return value


__dir__ = _only_public(globals())
