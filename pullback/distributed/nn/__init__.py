"""Collectives that autograd records."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import only_public as _only_public
from pullback.distributed.nn import functional
from pullback.distributed.nn.functional import *

__all__ = [*functional.__all__, "functional"]


def __getattr__(name: str) -> _Any:
    if name == "api":
        return _import_module("pullback.distributed.nn.api")
    if name == "RemoteModule":  # which brings RPC
        return _import_module("pullback.distributed.nn.api.remote_module").RemoteModule
    raise _absent(__name__, name)


__dir__ = _only_public(globals(), "RemoteModule api functional")
