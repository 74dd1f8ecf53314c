"""Changing all parameters and buffers of a module: their dtype, device or memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pullback.autograd.grad_mode import no_grad
from pullback.core import dtype as dtypes
from pullback.core.device import as_device, device
from pullback.core.dtype import DTYPES, as_dtype, dtype
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.nn.base.swapping import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from pullback.nn.parameter import Parameter, is_lazy
from pullback.operators.create.sizes import empty_like
from pullback.utils.swapping import swap_tensors

M = TypeVar("M", bound="Convertible")
Change = Callable[[Tensor], Tensor]


class Convertible:
    """The part of `Module` that converts it."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    children: Callable[[], Iterator[Any]]

    def apply(self: M, fn: Callable[[Any], None]) -> M:
        """Call `fn` with each module below, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: M, fn: Change, recurse: bool = True) -> M:
        """Replace the values of all parameters, gradients and buffers by what `fn` gives."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _changed(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move and convert all parameters and buffers; dtypes apply to floating ones only.

        >>> import pullback as torch
        >>> torch.nn.Linear(2, 2).to(torch.float64).weight.dtype
        torch.float64
        """
        place, kind, options = destination(args, kwargs)
        if kind is not None and not (kind.is_floating_point or kind.is_complex):
            raise TypeError(
                f"Module.to(): parameters need a floating or complex dtype, not {kind}."
            )
        if kind is not None and kind.is_complex:
            warnings.warn(
                "Complex modules are a new feature: some may not work as expected with complex "
                "parameters or buffers.",
                UserWarning,
                stacklevel=stacklevel(),
            )
        format = options.pop("memory_format", None)

        def moved(tensor: Tensor) -> Tensor:
            wanted = kind if tensor.is_floating_point() or tensor.is_complex() else None
            more = dict(options)
            if format is not None and not is_lazy(tensor) and tensor.ndim in (4, 5):
                more["memory_format"] = format
            return tensor.to(place or tensor.device, wanted or tensor.dtype, **more)

        return self._apply(moved)

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Give all parameters and buffers new memory on a device, without values.

        >>> import pullback as torch
        >>> layer = torch.nn.Linear(2, 3, device="meta")
        >>> layer.to_empty(device="cpu").weight.shape
        torch.Size([3, 2])
        """

        def emptied(tensor: Tensor) -> Tensor:
            return tensor.to(device) if is_lazy(tensor) else empty_like(tensor, device=device)

        return self._apply(emptied, recurse=recurse)

    def _converted(self: M, kind: dtype) -> M:
        return self._apply(lambda t: t.to(kind) if t.is_floating_point() else t)

    def type(self: M, dst_type: Any) -> M:
        """Convert all parameters and buffers."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self: M) -> M:
        """Convert floating parameters and buffers to float32."""
        return self._converted(DTYPES["float32"])

    def double(self: M) -> M:
        """Convert floating parameters and buffers to float64."""
        return self._converted(DTYPES["float64"])

    def half(self: M) -> M:
        """Convert floating parameters and buffers to float16."""
        return self._converted(DTYPES["float16"])

    def bfloat16(self: M) -> M:
        """Convert floating parameters and buffers to bfloat16."""
        return self._converted(dtypes.bfloat16)

    def cpu(self: M) -> M:
        """Move all parameters and buffers to the host."""
        return self._apply(lambda tensor: tensor.to("cpu"))

    def cuda(self: M, device: int | device | None = None) -> M:
        """Move all parameters and buffers to a GPU."""
        return self._moved("cuda", device)

    def xpu(self: M, device: int | device | None = None) -> M:
        """Move all parameters and buffers to an XPU."""
        return self._moved("xpu", device)

    def mtia(self: M, device: int | device | None = None) -> M:
        """Move all parameters and buffers to an MTIA."""
        return self._moved("mtia", device)

    def ipu(self: M, device: int | device | None = None) -> M:
        """Move all parameters and buffers to an IPU."""
        return self._moved("ipu", device)

    def _moved(self: M, kind: str, number: Any) -> M:
        place = kind if number is None else number
        if isinstance(place, int):
            place = f"{kind}:{place}"
        return self._apply(lambda tensor: tensor.to(place))

    def share_memory(self: M) -> M:
        """Put all parameters and buffers where other processes can see them."""
        return self._apply(lambda tensor: tensor.share_memory_())


def _changed(parameter: Parameter, fn: Change) -> Parameter:
    """The parameter with other values: the same object, as far as that is possible."""
    with no_grad():
        made = fn(parameter)
        g = parameter.grad
        made_grad = None if g is None else fn(g).detach().requires_grad_(g.requires_grad)
        if get_swap_module_params_on_conversion():
            if made is not parameter:
                parameter.grad = None
                if not isinstance(made, Parameter):
                    made = Parameter(made, parameter.requires_grad)
                swap_tensors(parameter, made)
        elif not is_lazy(parameter) and (
            get_overwrite_module_params_on_conversion() or made.is_meta is not parameter.is_meta
        ):
            # What is on the meta device is another kind of tensor, and takes no other memory.
            parameter = Parameter(made, parameter.requires_grad)
        else:
            parameter.data = made
        if made_grad is not None:
            parameter.grad = None
            parameter.grad = made_grad
    return parameter


# The forms of `to`, by what comes first. `copy` is here to be refused: a module stays itself.
_BY_DEVICE = ("device", "dtype", "non_blocking", "copy")
_BY_DTYPE = ("dtype", "non_blocking", "copy")
_LIKE_TENSOR = ("tensor", "non_blocking", "copy")


def destination(args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Device, dtype and further options from the arguments of `to`, in any of its forms."""
    names = _form(args[0] if args else kwargs.get("tensor"))
    twice = kwargs.keys() & set(names[: len(args)])
    if len(args) > len(names) or twice:
        raise TypeError(f"to(): takes {', '.join(names)}, each once; got {len(args)} and {kwargs}.")
    options = {**dict(zip(names, args, strict=False)), **kwargs}
    if "copy" in options:
        raise RuntimeError("to(): a module takes no `copy`; it is changed itself. Use deepcopy.")
    if unknown := options.keys() - {*names, "memory_format"}:
        raise TypeError(f"to() got an unexpected keyword argument {min(unknown)!r}")
    if not isinstance(options.setdefault("non_blocking", False), bool):
        raise TypeError(f"to(): non_blocking is True or False, not {options['non_blocking']!r}.")
    like = options.pop("tensor", None)
    if like is not None:
        return like.device, like.dtype, options
    place, kind = options.pop("device", None), options.pop("dtype", None)
    return (
        None if place is None else as_device(place),
        None if kind is None else as_dtype(kind),
        options,
    )


def _form(first: Any) -> tuple[str, ...]:
    if isinstance(first, Tensor):
        return _LIKE_TENSOR
    return _BY_DTYPE if isinstance(first, dtype | type) else _BY_DEVICE
