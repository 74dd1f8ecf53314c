"""Choosing and writing attention: backends, causal biases, attention by functions of scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public

if TYPE_CHECKING:  # loaded when asked for
    from pullback.nn.attention import bias as bias
    from pullback.nn.attention import flex_attention as flex_attention

__all__ = [
    *("SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "activate_flash_attention_impl"),
    *("current_flash_attention_impl", "list_flash_attention_impls"),
    *("register_flash_attention_impl", "restore_flash_attention_impl", "sdpa_kernel"),
]

# torch's switch for warnings of kernels that were not chosen; there is one kernel here.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """Ways to compute scaled_dot_product_attention; here all of them lead to one.

    >>> from pullback.nn.attention import SDPBackend
    >>> SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_ALL = tuple(one for one in SDPBackend if one is not SDPBackend.ERROR)
_allowed: ContextVar[tuple[SDPBackend, ...]] = ContextVar("pullback_sdpa_backends", default=_ALL)


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Allow these backends, as long as one is inside; results do not depend on it here.

    >>> from pullback.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     pass
    """
    listed = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(listed, list) or not all(isinstance(one, SDPBackend) for one in listed):
        raise AssertionError(
            f"sdpa_kernel: an SDPBackend or a list of them is needed, got {backends!r}."
        )
    before = _allowed.get()
    try:
        _allowed.set(tuple(dict.fromkeys(listed)))
        yield
    finally:
        _allowed.set(before)


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    return list(_allowed.get())


def list_flash_attention_impls() -> list[str]:
    """Other implementations of flash attention: none.

    >>> from pullback.nn.attention import list_flash_attention_impls
    >>> list_flash_attention_impls()
    []
    """
    return []


def current_flash_attention_impl() -> str | None:
    """The implementation of flash attention that is active: none.

    >>> from pullback.nn.attention import current_flash_attention_impl
    >>> print(current_flash_attention_impl())
    None
    """
    return None


def restore_flash_attention_impl(*args: Any, **kwargs: Any) -> None:
    """Nothing was replaced, so nothing is to be restored."""


def register_flash_attention_impl(impl: str, *args: Any, **kwargs: Any) -> None:
    """Refused: flash attention is a GPU's."""
    raise RuntimeError(
        f"register_flash_attention_impl({impl!r}): there is one attention here, on the CPU; use "
        "scaled_dot_product_attention as it is."
    )


activate_flash_attention_impl = register_flash_attention_impl


if not TYPE_CHECKING:  # to type checkers it would mean that every name is there

    def __getattr__(name: str) -> Any:
        if name in ("bias", "flex_attention"):
            return import_module(f"pullback.nn.attention.{name}")
        raise absent(__name__, name)


__dir__ = _only_public(globals(), "bias flex_attention")
