"""Functions of several operators, and those that make tensors, as ranges of a profile.

`layer_norm` is no operator here: what runs is `native_layer_norm`, and that is what an observer of
operators sees. Users look for what they called. So public functions ask while a profiler is on, and
a range with torch's name stands around what they do.
"""

from __future__ import annotations

import sys
from functools import cache
from types import FunctionType
from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.dispatch import observers
from pullback.operators.dispatch.asking import public_functions
from pullback.operators.dispatch.intercept import Watched, replaceable

__all__ = ["COMPOSITIONS", "merged"]

# Functions that are Python in torch, or no operator there: it shows what they call.
_PARTS_ALONE = """
    adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices
    adaptive_max_pool3d_with_indices affine_grid as_subclass as_tensor asarray bfloat16 bool
    broadcast_shapes byte cdouble cfloat char cpu cuda double dropout1d dropout2d dropout3d float
    fold fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices from_dlpack
    from_numpy frombuffer gaussian_nll_loss grid_sample gumbel_softmax half int interpolate ipu
    linear_cross_entropy local_response_norm long lp_pool1d lp_pool2d lp_pool3d lu max_unpool1d mtia
    multi_head_attention_forward multilabel_soft_margin_loss new_tensor normalize numpy short
    softmin softsign tanhshrink tensor tolist triplet_margin_with_distance_loss type unique
    unravel_index upsample upsample_bilinear upsample_nearest xpu divide_number falling_powers
"""
_UNSHOWN = frozenset(_PARTS_ALONE.split())
_OTHERWISE = {"cross_entropy": "cross_entropy_loss", "nll_loss": "nll_loss_nd"}
_SPACES = ("linalg", "fft", "special")
# Random numbers come from functions that ask nobody else.
_DRAWN = ("rand", "randn", "randint", "randperm", "normal", "rand_like", "randn_like")
_FILLED = ("resize_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_")


def _find() -> list[FunctionType]:
    """Every such function that is loaded."""
    package = vars(sys.modules["pullback"])
    drawn: list[Any] = [package.get(name) for name in _DRAWN]
    drawn += [vars(Tensor).get(name) for name in _FILLED]
    found: dict[Any, None] = dict.fromkeys([*public_functions(), *drawn])
    return [
        function
        for function in found
        if replaceable(function)
        and "build_now" not in function.__globals__
        and _name_of(function) is not None
    ]


@cache
def _name_of(function: FunctionType) -> str | None:
    name = function.__name__
    if name in _UNSHOWN or name.startswith("_"):
        return None
    for space in _SPACES:
        module = sys.modules.get(f"pullback.{space}")
        if module is not None and vars(module).get(name) is function:
            return f"aten::{space}_{name}"
    return f"aten::{_OTHERWISE.get(name, name)}"


def _run(function: FunctionType, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = _name_of(function)
    if name is None:
        return run(args, kwargs)
    return observers.observed_composition(name, run, args, kwargs)


COMPOSITIONS = Watched(_find, _run)


def merged(operators: list[Any], composed: list[Any]) -> list[Any]:
    """All ranges; a function around the one operator of its own name is one call, not two.

    `softmax` brings its arguments into a form and calls the operator `softmax`.
    """
    ranges = [(*_place(one), True, one) for one in composed]
    ranges += [(*_place(one), False, one) for one in operators]
    ranges.sort(key=lambda each: each[:3])
    found: list[Any] = []
    around: list[tuple[int, bool]] = []  # where ranges that are still open stand in `found`
    for _, _, _, is_composed, one in ranges:
        while around and not _inside(one, found[around[-1][0]]):
            around.pop()
        if around:
            at, outer_is_composed = around[-1]
            outer = found[at]
            if outer_is_composed and outer.name == one.name:
                seq = one.seq if outer.seq is None else outer.seq
                size, device = outer.bytes + one.bytes, outer.device or one.device
                found[at] = outer._replace(seq=seq, bytes=size, device=device)
                continue
        around.append((len(found), is_composed))
        found.append(one)
    return found


def _place(one: Any) -> tuple[int, int, int]:
    return one.thread, one.start, -one.end


def _inside(one: Any, outer: Any) -> bool:
    inside: bool = one.thread == outer.thread and one.end <= outer.end
    return inside
