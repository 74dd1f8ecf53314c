"""Which accelerators are there, and what a program hears that asks for one that is not.

The one place that answers it for `cuda`, `xpu`, `mps`, `mtia` and `accelerator`. Whoever brings an
array library for a device adds it to `core.device.HOLDERS`, and everything here counts it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pullback.core.device import HOLDERS, as_device, device, holder_of
from pullback.core.faults import AcceleratorError as AcceleratorError
from pullback.core.faults import OutOfMemoryError as OutOfMemoryError

__all__ = [
    *("AcceleratorError", "Kind", "OutOfMemoryError", "StreamContext", "accelerator_kind"),
    "get_device_module",
    *("nothing", "zero"),
]


def accelerator_kind() -> str | None:
    """The type of the accelerator that is there."""
    holder_of("cuda")  # looked for when first asked
    return next((kind for kind, holder in HOLDERS.items() if holder.is_accelerator), None)


def get_device_module(device: Any = None) -> Any:
    """The module of a type of device: `torch.cuda` for "cuda"; that of the accelerator for None.

    >>> import pullback as torch
    >>> torch.get_device_module("cuda") is torch.cuda
    True
    """
    kind = accelerator_kind() or "cpu" if device is None else as_device(device).type
    if kind not in ("cpu", "cuda", "mps", "mtia", "xpu"):
        raise RuntimeError(f"get_device_module: there is no module for devices of type {kind!r}.")
    return import_module(f"pullback.{kind}")


class Kind:
    """A type of accelerator: how many there are, and the errors where there is none."""

    __slots__ = ("error", "name")

    def __init__(self, name: str, error: type[Exception] = AssertionError) -> None:
        self.name = name
        self.error = error

    @property
    def kind(self) -> str:
        """The type of the devices, of modules such as cuda.nvtx and backends.mps too."""
        return self.name.removeprefix("backends.").partition(".")[0]

    def device_count(self) -> int:
        """How many devices of this type can hold tensors."""
        holder = holder_of(self.name)
        return holder.devices if holder else 0

    def is_available(self) -> bool:
        """Whether there is a device of this type."""
        return self.device_count() > 0

    def missing(self, what: str, error: type[Exception] | None = None) -> Exception:
        """The error for a call that needs such a device."""
        kind = self.kind
        return (error or self.error)(
            f"{self.name}.{what} needs a device of type {kind!r}, and none can hold tensors "
            f"here. Ask {kind}.is_available() first, and use the CPU where it says False."
        )

    def index_of(self, given: Any, what: str) -> int:
        """The index that a device, its name or a number means; -1 stands for none."""
        if isinstance(given, int):
            return given
        place = device(given)
        if place.type != self.name:
            raise ValueError(f"{self.name}.{what}: a {self.name} device is needed, got {place}.")
        return 0 if place.index is None else place.index

    def refusing(self, name: str, error: type[Exception] | None = None) -> Callable[..., Any]:
        """A function that needs a device, and says so."""

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise self.missing(f"{name}()", error)

        refuse.__name__ = refuse.__qualname__ = name
        refuse.__doc__ = f"Needs a device of type {self.kind!r}: an error where there is none."
        return refuse

    def refusals(self, names: str, error: type[Exception] | None = None) -> dict[str, Any]:
        """Such functions by name."""
        return {name: self.refusing(name, error) for name in names.split()}

    def refusing_class(self, name: str, module: str, error: type[Exception]) -> type:
        """A class whose instances would live on the device; to be named in annotations."""

        def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
            raise self.missing(f"{name}()", error)

        members = {
            "__new__": refuse,
            "__module__": module,
            "__doc__": f"Needs a device of type {self.kind!r}: an error where there is none.",
        }
        return type(name, (), members)

    def chooser(self, module: str) -> type:
        """The context manager `device`, which makes one device the current one."""
        kind = self

        class device:  # noqa: N801 (torch's name)
            """Inside, one device is the current one; none for -1."""

            def __init__(self, device: Any) -> None:
                self.idx = kind.index_of(device, "device")
                self.prev_idx = -1

            def __enter__(self) -> None:
                if self.idx >= 0:
                    raise kind.missing("device", RuntimeError)

            def __exit__(self, *error: object) -> None:
                pass

        device.__module__, device.__qualname__ = module, "device"
        return device


class StreamContext:
    """Inside, work goes to a stream; None changes nothing, and there is nothing else here."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def nothing(*args: Any, **kwargs: Any) -> None:
    """There is no device to do this to: nothing happens, as in torch."""


def zero(device: Any = None) -> int:
    """Without a device, no memory is in use."""
    return 0
