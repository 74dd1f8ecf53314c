"""Functions that an exported graph keeps whole, as torch does, where a trace would take them apart.

`run_decompositions` takes them apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pullback
from pullback.core.tensor import Tensor
from pullback.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode
from pullback.library.builtin.losses import REDUCTIONS
from pullback.overrides import TorchFunctionMode

__all__ = ["KeepsWhole", "batch_norm_by_parts"]

_F: Any = pullback.nn.functional
Spelled = tuple[Any, tuple[Any, ...], dict[str, Any]]


def _as_given(name: str) -> Callable[[dict[str, Any]], Spelled]:
    """The arguments of the function in their order are those of the operator."""

    def spell(given: dict[str, Any]) -> Spelled:
        named = getattr(given, "named", {})
        args = tuple(one for key, one in given.items() if key not in named)
        return getattr(pullback.ops.aten, name).default, args, named

    return spell


class _Given(dict[str, Any]):
    """Arguments by name; `named` are those that are passed by name, and have no default's value."""

    named: dict[str, Any]


def _convolution(name: str) -> Callable[[dict[str, Any]], Spelled]:
    def spell(given: dict[str, Any]) -> Spelled:
        packet = getattr(pullback.ops.aten, name)
        target = packet.padding if isinstance(given["padding"], str) else packet.default
        return target, tuple(given.values()), {}

    return spell


def _batch_norm(given: dict[str, Any]) -> Spelled:
    names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum")
    args = (*(given[one] for one in names), given["eps"], False)
    return pullback.ops.aten.batch_norm.default, args, {}


def _normed(name: str) -> Callable[[dict[str, Any]], Spelled]:
    def spell(given: dict[str, Any]) -> Spelled:
        args = [one for key, one in given.items() if not key.startswith("cudnn")]
        return getattr(pullback.ops.aten, name).default, (*args, False), {}

    return spell


def _dropout(given: dict[str, Any]) -> Spelled | None:
    if given["inplace"]:
        return None
    args = (given["input"], given["p"], given["training"])
    return pullback.ops.aten.dropout.default, args, {}


def _softmax(name: str) -> Callable[[dict[str, Any]], Spelled | None]:
    def spell(given: dict[str, Any]) -> Spelled | None:
        if given["dim"] is None:
            return None
        args = (given["input"], given["dim"])
        args += () if given["dtype"] is None else (given["dtype"],)
        return getattr(pullback.ops.aten, name).int, args, {}

    return spell


def _cross_entropy(given: dict[str, Any]) -> Spelled | None:
    if given["size_average"] is not None or given["reduce"] is not None:
        return None
    number = REDUCTIONS.index(given["reduction"])
    args = (given["input"], given["target"], given["weight"], number, given["ignore_index"])
    smoothing = given["label_smoothing"]
    return pullback.ops.aten.cross_entropy_loss.default, (*args, smoothing), {}


def _pool(dims: int) -> Callable[[dict[str, Any]], Spelled | None]:
    def spell(given: dict[str, Any]) -> Spelled | None:
        if given["return_indices"]:
            return None
        names = ("kernel_size", "stride", "padding", "dilation")
        sizes = [[] if given[name] is None else given[name] for name in names]
        lists = [[one] * dims if type(one) is int else list(one) for one in sizes]
        target = getattr(pullback.ops.aten, f"max_pool{dims}d").default
        return target, (given["input"], *lists, given["ceil_mode"]), {}

    return spell


def _einsum(given: dict[str, Any]) -> Spelled | None:
    equation, *operands = given["args"]
    if not isinstance(equation, str) or not all(isinstance(one, Tensor) for one in operands):
        return None
    return pullback.ops.aten.einsum.default, (equation, list(operands)), {}


def _flatten(given: dict[str, Any]) -> Spelled:
    return pullback.ops.aten.flatten.using_ints, tuple(given.values()), {}


def _attention(given: dict[str, Any]) -> Spelled:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    options = {one: given[one] for one in ("scale", "enable_gqa") if given.get(one) is not None}
    args = tuple(given[one] for one in names)
    return pullback.ops.aten.scaled_dot_product_attention.default, args, options


def _pad(given: dict[str, Any]) -> Spelled:
    args = (given["input"], list(given["pad"]), given["mode"], given["value"])
    return pullback.ops.aten.pad.default, args, {}


def _public(module: Any, prefix: str) -> dict[Any, Callable[[dict[str, Any]], Spelled | None]]:
    """All functions of a module, which are operators under longer names."""
    return {
        getattr(module, name): _as_given(f"{prefix}_{name}")
        for name in module.__all__
        if hasattr(pullback.ops.aten, f"{prefix}_{name}")
    }


# Taken apart by `run_decompositions`.
_TABLE: dict[Any, Callable[[dict[str, Any]], Spelled | None]] = {
    _F.linear: _as_given("linear"),
    pullback.matmul: _as_given("matmul"),
    Tensor.matmul: _as_given("matmul"),
    _F.conv1d: _convolution("conv1d"),
    _F.conv2d: _convolution("conv2d"),
    _F.conv3d: _convolution("conv3d"),
    _F.batch_norm: _batch_norm,
    _F.layer_norm: _normed("layer_norm"),
    _F.group_norm: _normed("group_norm"),
    _F.dropout: _dropout,
    _F.softmax: _softmax("softmax"),
    _F.log_softmax: _softmax("log_softmax"),
    _F.cross_entropy: _cross_entropy,
    _F.max_pool2d: _pool(2),
    _F.prelu: _as_given("prelu"),
    pullback.flatten: _flatten,
    Tensor.flatten: _flatten,
}
# Whole there too: their parts are operators of pullback's own.
_ALWAYS: dict[Any, Callable[[dict[str, Any]], Spelled | None]] = {
    _F.scaled_dot_product_attention: _attention,
    _F.pad: _pad,
    _F.adaptive_avg_pool2d: _as_given("adaptive_avg_pool2d"),
    _F.max_pool1d: _pool(1),
    pullback.einsum: _einsum,
    **_public(pullback.fft, "fft"),
    **_public(pullback.linalg, "linalg"),
}


def _spelled(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], table: dict[Any, Any]
) -> Spelled | None:
    """A call as the operator that stands for the whole of it; None where it is taken apart."""
    try:
        spell = table.get(func)
    except TypeError:
        return None
    if spell is None:
        return None
    signature = inspect.signature(func)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.arguments.get("out") is not None:
        return None
    given = _Given({name: one for name, one in bound.arguments.items() if name != "out"})
    parameters = signature.parameters
    named = [name for name in given if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY]
    given.named = {name: given[name] for name in named}
    unsaid = {name for name in named if given[name] is parameters[name].default}
    for name in unsaid:
        del given[name], given.named[name]
    spelled: Spelled | None = spell(given)
    return spelled


def batch_norm_by_parts(
    x: Any, mean: Any, var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    """Batch norm whose writes to running statistics are operators of their own."""
    if not training or mean is None:
        return NotImplemented
    out = _F.batch_norm(x, None, None, weight, bias, True, momentum, eps)
    dims = [0, *range(2, x.ndim)]
    with pullback.no_grad():
        mean.copy_(mean * (1 - momentum) + x.mean(dims) * momentum)
        var.copy_(var * (1 - momentum) + x.var(dims, correction=1) * momentum)
    return out


class KeepsWhole(TorchFunctionMode):
    """Notes some functions as one operator each, while a graph is traced.

    `every`: those too that could be taken apart; if `functional`, none that writes.
    """

    def __init__(self, *, every: bool, functional: bool) -> None:
        super().__init__()
        self.table = {**_TABLE, **_ALWAYS} if every else _ALWAYS
        self.functional = functional

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run a function; the trace is told of it alone, not of what it calls."""
        named = dict(kwargs or {})
        if self.functional and func is _F.batch_norm:
            bound = inspect.signature(func).bind(*args, **named)
            bound.apply_defaults()
            made = batch_norm_by_parts(*list(bound.arguments.values())[:8])
            if made is not NotImplemented:
                return made
        spelled = _spelled(func, args, named, self.table)
        recording: Any = get_proxy_mode()
        if spelled is None or recording is None:
            return func(*args, **named)
        with disable_proxy_modes_tracing():
            result = func(*args, **named)
        recording.record(*spelled, result)
        return result
