"""Devices: their names, the default device of a thread, and which of them can hold tensors.

Its own file because names are free (any program may say "cuda:1") while memory is not.
Devices are singletons, one for each type and index, so that operators compare them by identity.
"""

from __future__ import annotations

import operator
import re
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn, SupportsIndex, TypeAlias, final

from pullback.core.ports import ports

# Torch's names, so that programs which mention them can be read; few can hold tensors here.
KINDS = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga"),
    *("maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)

# An index has no sign, no blanks and no leading zeros.
_SPELLING = r"([a-z_]+)(?::(0|[1-9][0-9]*))?"


@final
class device:  # noqa: N801  torch's name
    """Where a tensor lives: a type such as "cpu" or "cuda", and an index where there are several.

    A name is always allowed; only making a tensor there needs the device itself. As a context
    manager it is the default device of the functions that make tensors, in this thread.
    A number alone means that accelerator, and is a RuntimeError where there is none.

    Example:
        >>> import pullback as torch
        >>> torch.device("cuda:1")
        device(type='cuda', index=1)
        >>> torch.device("cuda", 1) == torch.device(type="cuda", index=1)
        True
        >>> with torch.device("cpu"):
        ...     print(torch.zeros(2).device)
        cpu
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __new__(
        cls,
        type: DeviceLike | None = None,
        index: SupportsIndex | None = None,
        *,
        device: DeviceLike | None = None,
    ) -> _Device:
        """Return the singleton for a spelling, a type and index, or a device."""
        if device is not None and (type is not None or index is not None):
            raise TypeError("device takes either `device` or `type` and `index`, got both")
        given = type if device is None else device
        if isinstance(given, cls) and index is None:
            return given
        if isinstance(given, str):
            return _singleton(*_parse(given, index))
        number = _plain_index(given)
        if number is not None and index is None:
            return _singleton(_accelerator(number), number)
        raise TypeError(
            f"device needs a string such as 'cpu' or 'cuda:1', or a device, got {given!r} "
            f"of type {given.__class__.__name__}{'' if index is None else f' and index {index!r}'}"
        )

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("device cannot be subclassed")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"attribute {name!r} of device {self} is read-only; make a new device")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"attribute {name!r} of device {self} is read-only")

    def __reduce__(self) -> tuple[Any, tuple[str, int | None]]:
        return self.__class__, (self.type, self.index)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __enter__(self) -> _Device:
        before = _choices.get()
        try:
            _choices.set((*before, _Choice(self, in_block=True)))
            return self  # noqa: TRY300 (what comes after it is taken back too)
        except BaseException:
            _choices.set(before)
            raise

    def __exit__(self, *error: object) -> None:
        try:
            _leave_block()
        except BaseException:
            _leave_block()
            raise


_Device: TypeAlias = device
DeviceLike: TypeAlias = device | str | int

_singletons: dict[tuple[str, int | None], device] = {}


def _singleton(kind: str, index: int | None) -> device:
    found = _singletons.get((kind, index))
    if found is not None:
        return found
    made: device = object.__new__(device)
    object.__setattr__(made, "type", kind)
    object.__setattr__(made, "index", index)
    # setdefault, so that threads that get here together agree on one object.
    return _singletons.setdefault((kind, index), made)


def _parse(spelling: str, index: object) -> tuple[str, int | None]:
    """The type and index that a string and a separate index mean."""
    if index is None and spelling in KINDS:
        return spelling, None
    match = re.fullmatch(_SPELLING, spelling, re.ASCII)
    kind, own_index = match.groups() if match else (spelling.partition(":")[0], None)
    if kind not in KINDS:
        raise RuntimeError(_unknown(spelling, kind))
    if match is None:
        raise RuntimeError(
            f"{spelling!r} is not how a device is written; write '{kind}', or '{kind}:0' with the "
            "number of the device"
        )
    if index is None:
        return kind, None if own_index is None else int(own_index)
    if own_index is not None:
        raise RuntimeError(
            f"{spelling!r} has an index already and index={index!r} was given too; give one of them"
        )
    number = _plain_index(index)
    if number is None:
        raise TypeError(
            f"the index of a device must be an int, got {index!r} of type {type(index).__name__}"
        )
    return kind, number


def _unknown(spelling: str, kind: str) -> str:
    """The error for a name that is no device's; of the known ones, those that hold tensors."""
    from difflib import get_close_matches  # which few programs need

    plain = kind.strip().lower()
    near = get_close_matches(plain, KINDS, 1, 0.75)
    meant = "cuda" if plain in ("gpu", "nvidia") else near[0] if near else ""
    known = [one for one in KINDS if one in ("cuda", "meta") or one in HOLDERS]
    # "Expected one of ... device type" is read by programs: array-api-compat finds devices so.
    return (
        f"{spelling!r} is not a device{f'; did you mean {meant!r}?' if meant else '.'} "
        f"Expected one of {', '.join(known)} device type at its start; torch's other types are "
        "known by name alone"
    )


def _plain_index(value: object) -> int | None:
    """`value` as the number of a device; None if it is no int (a bool is none)."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    number = operator.index(value)
    if number < 0:
        raise RuntimeError(f"the index of a device cannot be negative, got {number}")
    return number


class _Choice(NamedTuple):
    """A default device; set_default_device has one entry at most, each open block has one."""

    device: device
    in_block: bool


# Oldest first; the last one counts. A new thread starts with none, as in torch.
_choices: ContextVar[tuple[_Choice, ...]] = ContextVar("pullback_default_device", default=())

chosen_devices = _choices.get  # empty where nothing was chosen

CPU = device("cpu")
META = device("meta")  # shapes without data


def _leave_block() -> None:
    choices = _choices.get()
    # The block's own entry, the newest; a set_default_device inside the block outlives it.
    place = max(i for i, choice in enumerate(choices) if choice.in_block)
    _choices.set(choices[:place] + choices[place + 1 :])


def get_default_device() -> device:
    """The device that tensors are made on when none is given: "cpu" unless chosen otherwise.

    Example:
        >>> import pullback as torch
        >>> torch.get_default_device()
        device(type='cpu')
    """
    choices = _choices.get()
    return choices[-1].device if choices else CPU


def set_default_device(device: DeviceLike | None) -> None:
    """Choose the device that tensors are made on when none is given, in this thread.

    None takes the choice back. Inside a `with device(...)` block it counts from there on, and
    after the block too.

    Example:
        >>> import pullback as torch
        >>> torch.set_default_device("cpu")
        >>> torch.get_default_device()
        device(type='cpu')
        >>> torch.set_default_device(None)
    """
    blocks = tuple(choice for choice in _choices.get() if choice.in_block)
    if device is None:
        _choices.set(blocks)
    else:
        _choices.set((*blocks, _Choice(as_device(device), in_block=False)))


def as_device(value: DeviceLike | None) -> device:
    """`value` as a device: what the `device=` argument of a function that makes tensors means.

    None is the default device. TypeError for what cannot name a device, RuntimeError for a string
    that names none.

    Example:
        >>> from pullback.core.device import as_device
        >>> as_device("cuda:1"), as_device(None)
        (device(type='cuda', index=1), device(type='cpu'))
    """
    if type(value) is device:
        return value
    return get_default_device() if value is None else device(value)


class Holder(NamedTuple):
    """A type of device that can hold tensors, in `HOLDERS`.

    Args:
        devices: How many there are.
        is_accelerator: Whether a number alone, as in `device(0)`, means this type.
    """

    devices: int
    is_accelerator: bool


# Who can hold tensors; an array library for another device adds its entry when it is found.
HOLDERS: dict[str, Holder] = {"cpu": Holder(devices=1, is_accelerator=False)}


def holder_of(kind: str) -> Holder | None:
    """Who holds tensors of a type of device; for "cuda", its array library is looked for first."""
    found = HOLDERS.get(kind)
    if found is None and kind == "cuda" and ports.find_cuda():
        found = HOLDERS.get(kind)
    return found


def _accelerator(number: int) -> str:
    """The type of device that a number alone means."""
    holder_of("cuda")
    for kind, holder in HOLDERS.items():
        if holder.is_accelerator:
            return kind
    raise RuntimeError(
        f"device({number}) means accelerator number {number}, and there is none; use 'cpu', or "
        "name the type as in 'cuda:0'"
    )


def missing(device: device) -> Exception:
    """The error for a device of a type that can hold no tensors here, of the type torch raises."""
    kind = AssertionError if device.type in ("cuda", "xpu", "mtia") else RuntimeError
    reason = f" ({ports.find_cuda.reason})" if device.type == "cuda" else ""  # type: ignore[attr-defined]  # its own
    return kind(
        f"no tensor can be made on device '{device}': only {', '.join(HOLDERS)} can hold "
        f"tensors here{reason}; leave out the device, or use 'cpu'"
    )


def require_available(device: device) -> device:
    """The device that a tensor made on `device` will report; an error if it can hold none.

    There is one CPU, so "cpu:1" is "cpu" too, as in torch.

    Example:
        >>> from pullback.core.device import device, require_available
        >>> require_available(device("cpu:0"))
        device(type='cpu')
    """
    if device is CPU:
        return device
    if device.type == "meta":
        return META
    holder = holder_of(device.type)
    if holder is None:
        raise missing(device)
    if device.type == "cpu":
        return CPU
    if device.index is None:
        return _singleton(device.type, ports.current_cuda() if device.type == "cuda" else 0)
    if device.index >= holder.devices:
        raise RuntimeError(
            f"no tensor can be made on device '{device}': the number of '{device.type}' devices "
            f"is {holder.devices}, the first has index 0; use a smaller index"
        )
    return device
