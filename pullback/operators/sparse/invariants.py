"""Whether the contents of indices are checked when sparse tensors are made."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from pullback.operators.sparse.checks import checking

__all__ = ["check_sparse_tensor_invariants"]


class check_sparse_tensor_invariants:  # noqa: N801 (torch's name)
    """Switch checks on or off: for good, in a `with` block, or around a function.

    Off by default: reading all indices takes longer than making the tensor.

    Example:
        >>> import pullback as torch
        >>> with torch.sparse.check_sparse_tensor_invariants():
        ...     torch.sparse_coo_tensor([[5]], [1.0], (3,))
        Traceback (most recent call last):
        RuntimeError: sparse_coo_tensor: index 5 does not exist in dimension 0, which has size 3.
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._before: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether contents are checked."""
        return checking.enabled

    @staticmethod
    def enable() -> None:
        """Check contents from now on."""
        checking.enabled = True

    @staticmethod
    def disable() -> None:
        """Check sizes alone from now on."""
        checking.enabled = False

    def __enter__(self) -> None:
        if self._before is not None:
            raise RuntimeError(
                "check_sparse_tensor_invariants: this context is open already; make another one."
            )
        self._before = checking.enabled
        checking.enabled = self.state

    def __exit__(self, *error: object) -> None:
        checking.enabled, self._before = bool(self._before), None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Run a function with checks on or off."""

        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked
