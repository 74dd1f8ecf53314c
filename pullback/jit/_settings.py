"""Settings of TorchScript's compiler, which is not there: they are taken and change nothing."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "annotate",
    "enable_onednn_fusion",
    "fuser",
    "isinstance_",
    "last_executed_optimized_graph",
    "onednn_fusion_enabled",
    "optimized_execution",
    "set_fusion_strategy",
    "set_module",
    "strict_fusion",
]

_onednn = False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is for the compiler.

    >>> import pullback as torch
    >>> torch.jit.annotate(list[int], [1, 2])
    [1, 2]
    """
    return the_value


def enable_onednn_fusion(enabled: bool) -> None:
    """Note the setting."""
    global _onednn
    _onednn = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """The setting as it was noted."""
    return _onednn


_strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Note the strategy; the one before."""
    global _strategy
    before, _strategy = _strategy, list(strategy)
    return before


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block in which another fuser would be used."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise Exception(f"There is no fuser {name!r}: fuser0 to fuser3.")  # noqa: TRY002 (torch's type)
    yield


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block in which the compiler would optimise, or not."""
    yield


class strict_fusion:  # noqa: N801 (torch's name)
    """A block in which everything would have to be fused."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def last_executed_optimized_graph() -> Any:
    """Not there: nothing is compiled."""
    raise NotImplementedError("There is no optimised graph: scripted programs run as Python.")


def set_module(obj: Any, mod: str) -> None:
    """Say in which module something is to be found."""
    if not isinstance(mod, str):
        raise TypeError("The module's name must be a str.")
    obj.__module__ = mod


def isinstance_(obj: Any, target_type: Any) -> bool:
    """`isinstance` that knows `list[int]`, `dict[str, Tensor]`, `tuple[int, ...]` and unions.

    >>> import pullback as torch
    >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance([1, "a"], list[int])
    (True, False)
    """
    if isinstance(target_type, tuple | list):
        return any(isinstance_(obj, one) for one in target_type)
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return target_type is Any or isinstance(obj, target_type)
    if origin in (list, set):
        return isinstance(obj, origin) and all(isinstance_(one, inner[0]) for one in obj)
    if origin is dict:
        return isinstance(obj, dict) and all(
            isinstance_(key, inner[0]) and isinstance_(one, inner[1]) for key, one in obj.items()
        )
    if origin is tuple:
        if not isinstance(obj, tuple):
            return False
        if len(inner) == 2 and inner[1] is Ellipsis:
            return all(isinstance_(one, inner[0]) for one in obj)
        return len(obj) == len(inner) and all(map(isinstance_, obj, inner))
    return any(isinstance_(obj, type(None) if one is None else one) for one in inner)
