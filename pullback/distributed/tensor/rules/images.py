"""Convolutions, windows and matrices: batches may be cut, channels where they are apart."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

from pullback.distributed.tensor.sharding import Axes, Call, Labels, Rule

__all__ = ["RULES"]


# Parts without any channel are nothing to convolve: of channels all ranks need as many.


def _convolution(call: Call) -> Labels | None:
    shapes = call.shapes
    dims = len(shapes[1])
    if len(shapes[0]) != dims:
        return None
    space = (None,) * (dims - 2)
    bias = len(shapes) == 3
    if call["groups"] != 1:
        whole = [("n", None, *space), (None, None, *space), (None,)]
        return Labels(whole[: len(shapes)], [("n", None, *space)])
    weight: Axes = ("i", "o", *space) if call["transposed"] else ("o", "i", *space)
    inputs: list[Axes] = [("n", "i", *space), weight]
    return Labels(
        [*inputs, ("o",)] if bias else inputs,
        [("n", "o", *space)],
        sums=frozenset("i"),
        added=frozenset((2,)) if bias else frozenset(),
        even={"i": shapes[0][1], "o": shapes[1][1 if call["transposed"] else 0]},
    )


def _convolution_weight(call: Call) -> Labels | None:
    gradient, own = call.shapes
    if call["groups"] != 1 or len(gradient) != len(own):
        return None
    space = (None,) * (len(own) - 2)
    return Labels(
        [("n", "o", *space), ("n", "i", *space)],
        [("o", "i", *space)],
        sums=frozenset("n"),
        even={"i": own[1], "o": gradient[1], "n": own[0]},
    )


def _windows(call: Call, *, space: int) -> Labels:
    """All but the last dimensions are apart."""
    axes = [(*range(len(shape) - space), *(None,) * space) for shape in call.shapes]
    lead = call.shapes[0][: len(call.shapes[0]) - space]
    # Of what is no batch a part must not be empty.
    even: dict[Hashable, int] = {
        place: size for place, size in enumerate(lead) if place or len(lead) == 1
    }
    return Labels(axes, [axes[0]] * max(1, len(call.func._schema.returns)), even=even)


def _places(call: Call) -> Labels:
    return _windows(call, space=len(call["size"]))


def _by_geometry(call: Call) -> Labels:
    geometry: Any = call["geometry"]
    return _windows(call, space=len(geometry.kernel))


def _matrices(call: Call) -> Labels | None:
    """One matrix at a time, or one for each other operand's."""
    shapes = call.shapes
    lead = shapes[0][:-2]
    if any(shape[:-2] != lead for shape in shapes) or any(len(one) < 2 for one in shapes):
        return None
    axes = tuple(range(len(lead)))
    count = max(1, len(call.func._schema.returns))
    return Labels([(*axes, None, None)] * len(shapes), [axes] * count)


def _shuffle(call: Call) -> Labels:
    return _windows(call, space=3)


_MATRICES = """linalg_matrix_exp linalg_qr linalg_eigh linalg_det linalg_slogdet linalg_inv_ex
    linalg_cholesky_ex linalg_svd linalg_lu linalg_pinv _linalg_det _linalg_slogdet _linalg_svd
    _linalg_eigh linalg_eigvalsh"""
RULES: dict[str, Rule] = {
    "convolution": _convolution,
    "convolution_weight": _convolution_weight,
    "put_places": _places,
    "_bare_max_pool": _by_geometry,
    "_spread_average": _by_geometry,
    "pixel_shuffle": _shuffle,
    "pixel_unshuffle": _shuffle,
    **dict.fromkeys(_MATRICES.split(), _matrices),
}
for _space, _digit in enumerate(("1d", "2d", "3d"), 1):
    _rule: Rule = partial(_windows, space=_space)
    for _name in ("avg_pool", "_adaptive_avg_pool", "adaptive_max_pool"):
        RULES[f"{_name}{_digit}"] = _rule
    RULES[f"max_pool{_digit}_with_indices"] = _rule
    for _name in ("_max_pool", "_adaptive_max_pool"):
        RULES[f"{_name}{_digit}"] = _by_geometry
