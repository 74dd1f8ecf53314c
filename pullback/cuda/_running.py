"""The way from torch's names to the device: CuPy where it is there, torch's errors where not."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pullback.backends.accelerators import Kind
from pullback.core.device import holder_of
from pullback.operators.cuda.found import found

__all__ = ["KIND", "cupy", "index_of", "is_there", "needs_device"]

KIND = Kind("cuda")
P = ParamSpec("P")
T = TypeVar("T")


def is_there() -> bool:
    """Whether there is a device; looks for it once."""
    return holder_of("cuda") is not None


def cupy(what: str, error: type[Exception] = AssertionError) -> Any:
    """CuPy, or torch's error for a call that needs a device."""
    if not is_there():
        raise KIND.missing(what, error)
    return found.cupy


def needs_device(
    function: Callable[P, T], error: type[Exception] = AssertionError
) -> Callable[P, T]:
    """A function that says so where there is no device."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        cupy(f"{function.__name__}()", error)
        return function(*args, **kwargs)

    return call


def index_of(device: Any, what: str) -> int:
    """The number of a device, of its name, or of the current one for None."""
    if device is None or (isinstance(device, str) and device == "cuda"):
        return int(cupy(what).cuda.Device().id)
    number = KIND.index_of(device, what)
    return int(cupy(what).cuda.Device().id) if number < 0 else number
