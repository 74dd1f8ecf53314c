"""Gradients scaled up, so that small ones do not vanish in float16, and back before each step."""

from __future__ import annotations

import enum
import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy

from pullback.autograd.grad_mode import no_grad
from pullback.backends.accelerators import Kind
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor, wrap

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """What happened to an optimizer's gradients since the last update()."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses; unscales gradients before a step and leaves it out if any is inf or NaN.

    After a step left out the scale shrinks by `backoff_factor`; after `growth_interval` steps in a
    row it grows by `growth_factor`.

    >>> import pullback as torch
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(torch.ones(1))
    tensor([4.])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if device == "cuda" and enabled and not Kind("cuda").is_available():
            warnings.warn(
                "GradScaler: there is no CUDA device; it is off. Use GradScaler('cpu').",
                UserWarning,
                stacklevel=stacklevel(),
            )
            self._enabled = False
        if not self._enabled:
            return
        if not growth_factor > 1:
            raise AssertionError(f"GradScaler: growth_factor must exceed 1, got {growth_factor}.")
        if not backoff_factor < 1:
            raise AssertionError(
                f"GradScaler: backoff_factor must be less than 1, got {backoff_factor}."
            )
        self._init_scale = init_scale
        self._scale: Tensor | None = None  # made by the first scale()
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[Any, dict[str, Any]] = defaultdict(_fresh_state)

    # Scaling --------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """A tensor, or tensors in nested containers, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._started().to(outputs.dtype)
        if isinstance(outputs, Iterable):
            scaled = [self.scale(one) for one in outputs]
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else iter(scaled)
        raise ValueError(
            f"GradScaler.scale: tensors, or an iterable of them, are needed; got "
            f"{type(outputs).__name__}."
        )

    def _started(self) -> Tensor:
        if self._scale is None:
            self._scale = wrap(numpy.array(self._init_scale, numpy.float32))
            self._growth_tracker = wrap(numpy.array(self._init_growth_tracker, numpy.int32))
        return self._scale

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer by the scale: once between updates."""
        if not self._enabled:
            return
        self._check_scaled("unscale_")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("GradScaler.unscale_: these gradients are unscaled already.")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("GradScaler.unscale_: this optimizer has stepped; call update().")
        scale = self._started()
        inverse = wrap(numpy.float32(1.0 / scale._array.astype(numpy.float64)).reshape(scale.shape))
        found = wrap(numpy.zeros((), numpy.float32))
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Scale in place; which devices have a gradient that is inf or NaN, as 0 or 1.

        Scalers of sharded models are subclasses that have their own.
        """
        inverse = float(inv_scale.item())
        device = None
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    g = parameter.grad
                    if g is None:
                        continue
                    if not allow_fp16 and g._array.dtype == numpy.float16:
                        raise ValueError("GradScaler: gradients in float16 cannot be unscaled.")
                    device = g.device
                    # A tensor of a class that answers for itself, such as one that lies over
                    # ranks, is asked: all of them must come to the same answer.
                    if not bool(
                        g.isfinite().all() if g._overrides else numpy.isfinite(g._array).all()
                    ):
                        found_inf.fill_(1.0)
                    g.mul_(inverse)
        if device is None:
            return {}
        return {device: found_inf}

    # Stepping -------------------------------------------------------------------------------------

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale if that was not done, and step unless a gradient is inf or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: closures cannot be used with a scaler.")
        self._check_scaled("step")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("GradScaler.step: this optimizer has stepped; call update() first.")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("GradScaler.step: this optimizer has no gradients.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _maybe_opt_step(
        self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Let the scale shrink or grow by what the steps found, or set it."""
        if not self._enabled:
            return
        self._check_scaled("update")
        if new_scale is not None:
            self._set(new_scale, self._get_growth_tracker())
        else:
            states = self._per_optimizer_states.values()
            found = [one for state in states for one in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("GradScaler.update: no step was taken, or none had gradients.")
            self._adjust(any(one.item() for one in found))
        self._per_optimizer_states.clear()

    def _adjust(self, found_inf: bool) -> None:
        if found_inf:
            self._set(self.get_scale() * self._backoff_factor, 0)
            return
        good = self._get_growth_tracker() + 1
        if good < self._growth_interval:
            self._set(self.get_scale(), good)
            return
        grown = numpy.float32(self.get_scale() * self._growth_factor)
        self._set(float(grown) if numpy.isfinite(grown) else self.get_scale(), 0)

    def _set(self, scale: float | Tensor, tracker: int) -> None:
        number = scale.item() if isinstance(scale, Tensor) else scale
        self._started()._array[...] = number
        assert self._growth_tracker is not None
        self._growth_tracker._array[...] = tracker

    def _check_scaled(self, called: str) -> None:
        if self._scale is None:
            raise AssertionError(
                f"GradScaler.{called}: nothing was scaled yet; call scaler.scale(loss).backward()."
            )

    def _state_of(self, optimizer: Any) -> dict[str, Any]:
        return self._per_optimizer_states[id(optimizer)]

    def _check_inf_per_device(self, optimizer: Any) -> Any:
        state = self._state_of(optimizer)
        one, found = (wrap(numpy.array(value, numpy.float32)) for value in (1.0, 0.0))
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, found, True)
        return state["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> Any:
        return self._state_of(optimizer)["found_inf_per_device"]

    # Settings -------------------------------------------------------------------------------------

    def get_scale(self) -> float:
        """The scale; 1 where the scaler is off."""
        if not self._enabled:
            return 1.0
        return float(self._init_scale if self._scale is None else self._scale.item())

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return int(self._init_growth_tracker if tracker is None else tracker.item())

    def get_growth_factor(self) -> float:
        """By what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Choose by what the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Choose by what the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Choose after how many steps in a row the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and all settings; empty where the scaler is off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, here or in torch."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "GradScaler.load_state_dict: this state is empty, as that of a scaler that is off."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._set(self._init_scale, self._init_growth_tracker)


__dir__ = _only_public(globals())
