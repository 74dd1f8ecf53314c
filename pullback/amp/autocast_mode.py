"""Regions in which operators choose their dtype: `autocast`, and what surrounds it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pullback.amp.compositions import compositions
from pullback.backends.accelerators import Kind
from pullback.core import autocast as settings
from pullback.core.dtype import DTYPES, float16
from pullback.core.dtype import dtype as Dtype  # noqa: N812 (`dtype` is torch's argument name)
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import stacklevel
from pullback.core.process.whole import Reentrant, Whole
from pullback.core.tensor import Tensor
from pullback.operators.running.autocasting import forget

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a type of device.

    >>> import pullback as torch
    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    return settings.known_layout("is_autocast_available", device_type) in settings.AVAILABLE


class autocast(Reentrant):  # noqa: N801 (torch's name)
    """Run matrix products and convolutions in low precision inside, losses in float32.

    A context manager and a decorator. The low-precision dtype is bfloat16 on the CPU unless another
    is given; parameters are cast once per region. Regions nest; `enabled=False` makes an exception.

    >>> import pullback as torch
    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu", dtype=torch.float16):
    ...     y = x @ x
    >>> y.dtype, (x @ x).dtype
    (torch.float16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: Dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = settings.known_layout("autocast", device_type)
        if device_type not in settings.AVAILABLE:
            raise RuntimeError(f"autocast: there is none for devices of type {device_type!r}.")
        now = settings.now()
        self.fast_dtype = dtype
        if dtype is None:
            try:
                self.fast_dtype = settings.dtype_for(now, device_type)
            except ImportError:  # bfloat16's package; where autocast is off none is needed
                if enabled:
                    raise
        self._cache_enabled = now.cache_enabled if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._possible()

    def _possible(self) -> bool:
        """Whether there is the device, and autocast for the dtype; else a warning."""
        why = ""
        if self.device == "cuda" and not Kind("cuda").is_available():
            why = "there is no CUDA device"
        # Nobody has bfloat16 before it is loaded.
        elif self.device == "cpu" and self.fast_dtype not in (float16, DTYPES.get("bfloat16")):
            why = f"on the CPU the dtype is bfloat16 or float16, not {self.fast_dtype}"
        if why:
            warnings.warn(f"autocast: {why}; it is off.", UserWarning, stacklevel=stacklevel())
        return not why

    def _entry(self) -> Whole:
        return _Region(self)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run in such a region."""
        return autocast_decorator(self, func)


class _Region(Whole):
    """An autocast context while it is open."""

    _NAMES = ("enabled", "dtypes", "cache_enabled", "nesting", "cache")

    def __init__(self, context: autocast) -> None:
        self.context = context
        self.before = settings.now()

    def _enter(self) -> autocast:
        context, now = self.context, self.before
        compositions.begin(self)
        on = now.enabled | {context.device} if context._enabled else now.enabled - {context.device}
        chosen = {} if context.fast_dtype is None else {context.device: context.fast_dtype}
        settings.change(
            enabled=on,
            dtypes={**now.dtypes, **chosen},
            cache_enabled=context._cache_enabled,
            nesting=now.nesting + 1,
            cache=now.cache if now.nesting else {},
        )
        return context

    def _leave(self) -> None:
        before, now = self.before, settings.now()
        if before.nesting == 0 and now.nesting:
            now.cache.clear()
        settings.change(**{name: getattr(before, name) for name in self._NAMES})
        forget()
        compositions.end(self)


def autocast_decorator(autocast_instance: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs inside a region.

    Args:
        autocast_instance: Region to enter around each call.
        func: Function to wrap.
    """

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return inside


class installed(Whole):  # noqa: N801 (a context, named as a verb)
    """Inside, the settings are those that another call found."""

    def __init__(self, wanted: settings.Autocast) -> None:
        self.wanted, self.before = wanted, settings.now()

    def _enter(self) -> None:
        compositions.begin(self)
        self._set(self.wanted)

    def _leave(self) -> None:
        self._set(self.before)
        compositions.end(self)

    def _set(self, to: settings.Autocast) -> None:
        settings.change(**{name: getattr(to, name) for name in _Region._NAMES})


# Custom functions ---------------------------------------------------------------------------------


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Dtype | None = None
) -> Callable[..., Any]:
    """For the forward of a custom Function: note the region it ran in, for `custom_bwd`.

    With `cast_inputs`, inputs are cast in a region and the forward runs outside of it.

    >>> import pullback as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return 2 * ctx.saved_tensors[0] * g
    >>> with torch.autocast("cpu", dtype=torch.float16):
    ...     Square.apply(torch.tensor([3.0], dtype=torch.float16)).dtype
    torch.float32
    """
    settings.known_layout("custom_fwd", device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        now = settings.now()
        on = device_type in now.enabled
        args[0]._dtype = settings.dtype_for(now, device_type)
        args[0]._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            cast = _cast(args, device_type, cast_inputs)
            return fwd(*cast, **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """For the backward of a custom Function: run it in the region that its forward had.

    >>> import pullback as torch
    >>> class Matched(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return x.clone()
    ...
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         print(torch.is_autocast_enabled("cpu"))
    ...         return g
    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.autocast("cpu", dtype=torch.float16):
    ...     y = Matched.apply(x)
    >>> y.backward()
    True
    """
    settings.known_layout("custom_bwd", device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        on, dtype = args[0]._fwd_used_autocast, args[0]._dtype
        with autocast(device_type, enabled=on, dtype=dtype):
            return bwd(*args, **kwargs)

    return backward


def _cast(value: Any, device_type: str, dtype: Dtype) -> Any:
    """Floating tensors of a device in a dtype, in nested containers; float64 stays."""
    if isinstance(value, Tensor):
        floating = value.dtype.is_floating_point and value._array.dtype.itemsize < 8
        return value.to(dtype) if floating and value.device.type == device_type else value
    if isinstance(value, Mapping):
        return {key: _cast(one, device_type, dtype) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(one, device_type, dtype) for one in value)
    return value


__dir__ = _only_public(globals())
