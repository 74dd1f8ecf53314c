"""Operators that move, keep or join dimensions: a label goes with its dimension."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd, prod
from typing import Any

from pullback.distributed.tensor.rules.reductions import dims_of
from pullback.distributed.tensor.sharding import Axes, Call, Labels, Rule

__all__ = ["RULES"]

_FIRST = (frozenset((0,)),)


def _axes(call: Call, *whole: int) -> list[Any]:
    """A label for each dimension of the first operand, but for some."""
    shape = call.shapes[0]
    return [None if place in whole else place for place in range(len(shape))]


def _view(call: Call, option: str = "size") -> Labels | None:
    """Dimensions that stay keep their label; of those made one, or several, the outermost does."""
    if option not in call.given:
        return None  # a view of another dtype
    shape = call.shapes[0]
    size = _without_minus_one(call[option], prod(shape))
    before: list[Any] = [None] * len(shape)
    after: list[Any] = [None] * len(size)
    even: dict[Any, int] = {}
    if prod(shape):
        for first, second in _groups(shape, size):
            source = next((n for n in first if shape[n] != 1), None)
            target = next((n for n in second if size[n] != 1), None)
            if source is None or target is None:
                continue
            before[source] = after[target] = source
            if shape[source] != size[target]:
                even[source] = gcd(shape[source], size[target])
            elif len([n for n in first if shape[n] != 1]) != 1:
                even[source] = shape[source]
    made = Labels([tuple(before)], [tuple(after)], linear=_FIRST, out_shapes=[size], even=even)
    made.shapes = {option: size}
    # A part need not lie in memory row by row, as far as its operator knows.
    made.compute = lambda call, parts, starts, changed: parts[0].reshape(changed[option])
    return made


def _without_minus_one(size: Any, count: int) -> tuple[int, ...]:
    listed = [int(one) for one in (size if isinstance(size, (list, tuple)) else (size,))]
    if -1 in listed:
        rest = prod(one for one in listed if one != -1)
        listed[listed.index(-1)] = count // rest if rest else 0
    return tuple(listed)


def _groups(first: Sequence[int], second: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Neighbouring dimensions of both shapes that have as many elements, as few as possible."""
    found, i, j = [], 0, 0
    while i < len(first) or j < len(second):
        left: list[int] = []
        right: list[int] = []
        a = b = 1
        while True:
            if (a < b or (a == b and not left)) and i < len(first):
                a *= first[i]
                left.append(i)
                i += 1
            elif j < len(second) and (b < a or not right):
                b *= second[j]
                right.append(j)
                j += 1
            else:
                break
            if a == b and left and right:
                break
        found.append((left, right))
    return found


def _permute(call: Call) -> Labels:
    axes = _axes(call)
    dims = [dim % len(axes) for dim in call["dims"]]
    return Labels([tuple(axes)], [tuple(axes[dim] for dim in dims)], linear=_FIRST)


def _transpose(call: Call) -> Labels:
    axes = _axes(call)
    out = list(axes)
    if axes:
        a, b = call["dim0"] % len(axes), call["dim1"] % len(axes)
        out[a], out[b] = out[b], out[a]
    return Labels([tuple(axes)], [tuple(out)], linear=_FIRST)


def _t(call: Call) -> Labels:
    axes = _axes(call)
    return Labels([tuple(axes)], [tuple(reversed(axes))], linear=_FIRST)


def _unsqueeze(call: Call) -> Labels:
    axes = _axes(call)
    out = list(axes)
    out.insert(call["dim"] % (len(axes) + 1), None)
    return Labels([tuple(axes)], [tuple(out)], linear=_FIRST)


def _squeeze(call: Call) -> Labels:
    """A rank's part may have one row where the whole has several: those are not to go."""
    shape = call.shapes[0]
    asked = dims_of(call.given.get("dim"), len(shape))
    gone = tuple(place for place in sorted(asked) if place < len(shape) and shape[place] == 1)
    axes = _axes(call, *gone)
    out = tuple(label for place, label in enumerate(axes) if place not in gone)
    made = Labels([tuple(axes)], [out], linear=_FIRST)
    made.compute = lambda call, parts, *_: parts[0].squeeze(gone)
    return made


def _select(call: Call) -> Labels:
    axes = _axes(call)
    dim = call["dim"] % len(axes)
    out = [label for place, label in enumerate(axes) if place != dim]
    axes[dim] = None
    return Labels([tuple(axes)], [tuple(out)], linear=_FIRST)


def _slice(call: Call) -> Labels:
    axes = _axes(call)
    dim = call["dim"] % len(axes)
    size = call.shapes[0][dim]
    start, stop = call["start"], call["end"]
    everything = start in (None, 0) and (stop is None or stop >= size) and call["step"] == 1
    if not everything:
        axes[dim] = None
    return Labels([tuple(axes)], [tuple(axes)], linear=_FIRST)


def _expand(call: Call) -> Labels:
    shape = call.shapes[0]
    size = [int(one) for one in call["size"]]
    new = len(size) - len(shape)
    whole = [*size[:new], *(a if b == -1 else b for a, b in zip(shape, size[new:], strict=True))]
    pairs = zip(shape, whole[new:], strict=True)
    axes = tuple(place if a == b else None for place, (a, b) in enumerate(pairs))
    return Labels(
        [axes], [((None,) * new + axes)], linear=_FIRST, shapes={"size": whole}, out_shapes=[whole]
    )


def _repeat(call: Call) -> Labels:
    times = list(call["repeats"])
    new = len(times) - len(call.shapes[0])
    axes = tuple(place if n == 1 else None for place, n in enumerate(times[new:]))
    return Labels([axes], [(None,) * new + axes], linear=_FIRST)


def _parts(call: Call, *, gone: bool = False) -> Labels:
    """Cut along a dimension into several results."""
    axes = _axes(call)
    dim = call["dim"] % len(axes)
    axes[dim] = None
    out = tuple(label for place, label in enumerate(axes) if not gone or place != dim)
    length = call.shapes[0][dim]
    sizes = call.given.get("split_sizes", call.given.get("split_size"))
    if gone:
        count = length
    elif isinstance(sizes, (list, tuple)):
        count = len(sizes)
    else:
        count = max(1, -(-length // sizes)) if sizes else 1
    return Labels([tuple(axes)], [out] * count, linear=_FIRST)


def _cat(call: Call) -> Labels | None:
    shapes = call.shapes
    dims = len(shapes[0])
    if any(len(shape) != dims for shape in shapes):
        return None
    axes = tuple(place if place != call["dim"] % dims else None for place in range(dims))
    return Labels([axes] * len(shapes), [axes], linear=[frozenset(range(len(shapes)))])


def _stack(call: Call) -> Labels:
    shapes = call.shapes
    axes = tuple(range(len(shapes[0])))
    dim = call["dim"] % (len(axes) + 1)
    out = (*axes[:dim], None, *axes[dim:])
    return Labels([axes] * len(shapes), [out], linear=[frozenset(range(len(shapes)))])


def _flip(call: Call) -> Labels:
    axes = tuple(_axes(call, *dims_of(call["dims"], len(call.shapes[0]))))
    return Labels([axes], [axes], linear=_FIRST)


def _roll(call: Call) -> Labels:
    axes = tuple(_axes(call, *dims_of(call.given.get("dims"), len(call.shapes[0]))))
    return Labels([axes], [axes], linear=_FIRST)


def _last(call: Call, dims: int = 2) -> Labels:
    """The last dimensions are whole."""
    count = len(call.shapes[0])
    axes = tuple(_axes(call, *range(count - dims, count)))
    return Labels([axes], [axes], linear=_FIRST)


def _diagonal(call: Call) -> Labels:
    axes = _axes(call)
    both = {call["dim1"] % len(axes), call["dim2"] % len(axes)}
    inputs = tuple(None if place in both else label for place, label in enumerate(axes))
    out = tuple(label for place, label in enumerate(axes) if place not in both)
    return Labels([inputs], [(*out, None)], linear=_FIRST)


def _unfold(call: Call) -> Labels:
    axes = _axes(call)
    if not axes:
        return Labels([()], [(None,)])
    axes[call["dimension"] % len(axes)] = None
    return Labels([tuple(axes)], [(*axes, None)], linear=_FIRST)


def _pad(call: Call) -> Labels:
    pads: Any = call["pads"]
    first = len(call.shapes[0]) - len(pads)
    moved = [place for place, both in enumerate(pads, first) if any(both)]
    axes = tuple(_axes(call, *moved))
    return Labels([axes], [axes], linear=_FIRST if call["value"] == 0 else ())


def _slice_adjoint(call: Call) -> Labels:
    axes = tuple(_axes(call, call["dim"] % len(call["shape"])))
    return _of_shape(call, axes, axes)


def _select_adjoint(call: Call) -> Labels:
    shape = call["shape"]
    dim = call["dim"] % len(shape)
    axes = tuple(range(len(shape)))
    return _of_shape(
        call,
        tuple(label for label in axes if label != dim),
        tuple(None if label == dim else label for label in axes),
    )


def _of_shape(call: Call, inputs: Axes, out: Axes) -> Labels:
    shape = tuple(call["shape"])
    return Labels([inputs], [out], linear=_FIRST, shapes={"shape": shape}, out_shapes=[shape])


_TO_RULES: list[tuple[str, Rule]] = [
    ("view _unsafe_view _reshape_alias", _view),
    ("reshape", partial(_view, option="shape")),
    ("permute", _permute),
    ("transpose", _transpose),
    ("t", _t),
    ("unsqueeze", _unsqueeze),
    ("squeeze", _squeeze),
    ("select", _select),
    ("slice", _slice),
    ("expand", _expand),
    ("repeat", _repeat),
    ("split split_with_sizes unsafe_split unsafe_split_with_sizes", _parts),
    ("unbind", partial(_parts, gone=True)),
    ("cat", _cat),
    ("stack", _stack),
    ("flip", _flip),
    ("roll", _roll),
    ("tril triu", _last),
    ("diagonal", _diagonal),
    ("unfold", _unfold),
    ("_constant_pad", _pad),
    ("_slice_adjoint", _slice_adjoint),
    ("_select_adjoint", _select_adjoint),
]
RULES: dict[str, Rule] = {name: rule for names, rule in _TO_RULES for name in names.split()}
