"""What a re-run must find as the forward did: random numbers, default device, autocast.

Its own part because both variants of checkpoint record it before the function runs, and install it
around the re-run.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from numpy import ndarray

from pullback.core import autocast
from pullback.core.device import get_default_device
from pullback.core.mode import get_mode
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_leaves
from pullback.operators.random.generator import default_generator

__all__ = ["Ambient", "DefaultDeviceType", "get_device_states", "set_device_states"]


class DefaultDeviceType:
    """The type of device whose random numbers are preserved where no argument tells it.

    >>> from pullback.utils.checkpoint import DefaultDeviceType
    >>> DefaultDeviceType.get_device_type()
    'cuda'
    """

    _default_device_type: ClassVar[str] = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose it, for the whole process."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """The chosen type."""
        return DefaultDeviceType._default_device_type


def _devices(args: Iterable[Any]) -> list[Any]:
    """Devices other than the host that hold a tensor among the arguments, in containers too."""
    leaves = [leaf for arg in args for leaf in tree_leaves(arg)]
    places = [leaf.device for leaf in leaves if isinstance(leaf, Tensor)]
    return [place for place in dict.fromkeys(places) if place.type not in ("cpu", "meta")]


def _on_host(args: Iterable[Any]) -> bool:
    """Whether a look at the arguments shows that none is on another device."""
    for one in args:
        kind = one.__class__
        if kind not in _WITHOUT_DEVICE and (kind is not Tensor or type(one._array) is not ndarray):
            return False
    return True


_WITHOUT_DEVICE = frozenset((int, float, bool, str, type(None)))


def device_type_of(args: Iterable[Any]) -> str:
    """The type of device that the arguments are on; of several, "cuda" if it is among them."""
    kinds = list(dict.fromkeys(place.type for place in _devices(args)))
    if len(kinds) > 1:
        chosen = "cuda" if "cuda" in kinds else kinds[0]
        warnings.warn(
            f"checkpoint: tensor arguments are on devices of several types ({', '.join(kinds)}); "
            f"random numbers are preserved for {chosen!r} alone.",
            UserWarning,
            stacklevel=stacklevel(),
        )
        return chosen
    return kinds[0] if kinds else DefaultDeviceType.get_device_type()


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Numbers and generator states of the devices that hold tensors among the arguments.

    The host's own generator is not among them.

    >>> import pullback as torch
    >>> torch.utils.checkpoint.get_device_states(torch.ones(2), [torch.ones(3)])
    ([], [])
    """
    chosen = device_type_of(args)
    places = [place for place in _devices(args) if place.type == chosen]
    if not places:
        return [], []
    module = _module(chosen)
    numbers = [place.index or 0 for place in places]
    return numbers, [module.get_rng_state(number) for number in numbers]


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Install what `get_device_states` returned.

    >>> import pullback as torch
    >>> torch.utils.checkpoint.set_device_states([], [])
    """
    chosen = DefaultDeviceType.get_device_type() if device_type is None else device_type
    if not devices or chosen == "meta":
        return
    module = _module(chosen)
    for number, state in zip(devices, states, strict=True):
        module.set_rng_state(state, number)


def _module(kind: str) -> Any:
    """The module of a type of device, `pullback.cuda`; it has the states of its generators."""
    module = getattr(sys.modules["pullback"], kind, None)
    if module is None:
        raise RuntimeError(f"checkpoint: there is no device of type {kind!r} here.")
    return module


class Ambient:
    """What surrounded a forward, to be installed again around its re-runs."""

    __slots__ = ("autocast", "device", "device_type", "devices", "is_traced", "states", "stream")

    def __init__(self, args: Any, *, preserve_rng_state: bool) -> None:
        self.device = get_default_device()
        self.autocast = autocast.now()
        self.stream: Tensor | None = None
        self.devices: list[int] = []
        self.states: list[Tensor] = []
        self.is_traced = preserve_rng_state and get_mode().tracing is not None
        if preserve_rng_state and not self.is_traced:
            self.stream = default_generator.get_state()
            if not _on_host(args):
                self.device_type = device_type_of(args)
                self.devices, self.states = get_device_states(*args)

    def run(self, function: Callable[[], Any]) -> Any:
        """What `function` returns when all is as recorded."""
        if self.is_traced:  # a captured program has no stream to go back in: none may be drawn
            return get_mode().tracing.without_draws(lambda: self._run(function))
        return self._run(function)

    def _run(self, function: Callable[[], Any]) -> Any:
        usual = get_default_device() is self.device and self.autocast is autocast.now()
        if not usual or self.devices:
            with self.installed():
                return function()
        if self.stream is None:
            return function()
        before = default_generator.get_state()
        try:
            default_generator.set_state(self.stream)
            return function()
        finally:
            default_generator.set_state(before)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Inside, all is as recorded; afterwards as it was before, whatever happened."""
        with ExitStack() as around:
            if get_default_device() is not self.device:
                around.enter_context(self.device)
            if self.autocast is not autocast.now():
                from pullback.amp.autocast_mode import installed

                around.enter_context(installed(self.autocast))
            if self.stream is not None:
                around.callback(default_generator.set_state, default_generator.get_state())
                self._install_device_states(around)
                default_generator.set_state(self.stream)
            yield

    def _install_device_states(self, around: ExitStack) -> None:
        if not self.devices:
            return
        module = _module(self.device_type)
        for number, state in zip(self.devices, self.states, strict=True):
            around.callback(module.set_rng_state, module.get_rng_state(number), number)
            module.set_rng_state(state, number)
