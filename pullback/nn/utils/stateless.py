"""Calling a module with other parameters: the old place of `func.functional_call`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.func import functional_call as _functional_call
from pullback.func.modules import replaced
from pullback.nn.base.old_names import warn_of_old

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given tensors in place of its own.

    Args:
        module: Module to call.
        parameters_and_buffers: Tensors by the names of parameters and buffers.
        args: Positional arguments, or the only one.
        kwargs: Keyword arguments.
        tie_weights: Whether a tensor given for one name also stands for names tied to it.
        strict: Whether every parameter and buffer must be given.
    """
    warn_of_old("nn.utils.stateless.functional_call", "func.functional_call")
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


@contextmanager
def _reparametrize_module(
    module: Any, parameters_and_buffers: dict[str, Tensor], **options: Any
) -> Iterator[None]:
    """Other tensors in a module, as long as one is inside."""
    with replaced(module, parameters_and_buffers, **options):
        yield


__dir__ = _only_public(globals())
