"""Operators that go along one dimension, which is whole, and choices by index; norms as well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pullback.distributed.tensor.sharding import Axes, Call, Labels, Rule

__all__ = ["RULES"]

_FIRST = (frozenset((0,)),)


def _along(call: Call, *, linear: bool = False) -> Labels | None:
    """Every operand and result has the dimension; sizes along the others are equal."""
    shapes = call.shapes
    dims = len(shapes[0])
    if not dims or any(len(shape) != dims for shape in shapes):
        return None
    dim = call["dim"] % dims
    axes = tuple(
        place if place != dim and len({shape[place] for shape in shapes}) == 1 else None
        for place in range(dims)
    )
    count = max(1, len(call.func._schema.returns))
    return Labels([axes] * len(shapes), [axes] * count, linear=_FIRST if linear else ())


def _gather(call: Call) -> Labels | None:
    """Where the dimension is cut, each rank has what lies in its part, and zeros for the rest."""
    made = _along(call)
    if made is None:
        return None
    dim = call["dim"] % len(call.shapes[0])
    first = list(made.inputs[0])
    first[dim] = "picked"
    made.inputs = [tuple(first), made.inputs[1]]
    made.sums = frozenset(("picked",))
    made.linear = _FIRST

    def compute(call: Call, parts: Sequence[Any], starts: Sequence[Any], changed: Any) -> Any:
        source, index = parts
        whole = call.shapes[0][dim]
        if source.shape[dim] == whole:
            return call.on(parts, {})
        index = _checked(index, whole) - starts[0][dim]
        return _within(source, index, dim, lambda at: call.on((source, at), {}))

    made.compute = compute
    return made


def _checked(index: Any, size: int) -> Any:
    """The same, after a check that the parts alone cannot make."""
    if bool(((index < 0) | (index >= size)).any()):
        raise IndexError(f"An index is out of range of a dimension of {size}.")
    return index


def _within(source: Any, index: Any, dim: int, taken: Any) -> Any:
    """What `taken` gives where an index lies in the part, else zeros."""
    length = source.shape[dim]
    if not length:
        return source.new_zeros(tuple(index.shape))
    outside = (index < 0) | (index >= length)
    return taken(index.masked_fill(outside, 0)).masked_fill(outside, 0)


def _gather_adjoint(call: Call) -> Labels:
    shape, own = tuple(call["shape"]), call.shapes[0]
    dim = call["dim"] % max(len(shape), 1)
    axes = tuple(
        place if place != dim and a == b else None
        for place, (a, b) in enumerate(zip(own, shape, strict=True))
    )
    return Labels([axes, axes], [axes], linear=_FIRST, shapes={"shape": shape}, out_shapes=[shape])


def _index_select(call: Call) -> Labels | None:
    shape, index = call.shapes
    if not shape or len(index) != 1:
        return None
    dim = call["dim"] % len(shape)
    axes: list[Any] = [place if place != dim else None for place in range(len(shape))]
    out = [*axes]
    out[dim] = "chosen"
    return Labels([tuple(axes), ("chosen",)], [tuple(out)], linear=_FIRST)


def _index_select_adjoint(call: Call) -> Labels | None:
    shape = tuple(call["shape"])
    if not shape or len(call.shapes[1]) != 1:
        return None
    dim = call["dim"] % len(shape)
    axes: list[Any] = [place if place != dim else None for place in range(len(shape))]
    given = [*axes]
    given[dim] = "chosen"
    return Labels(
        [tuple(given), ("chosen",)],
        [tuple(axes)],
        sums=frozenset(("chosen",)),
        linear=_FIRST,
        shapes={"shape": shape},
        out_shapes=[shape],
    )


def _indexed(shapes: Sequence[Sequence[int]], dims: Sequence[int], count: int) -> Any:
    """Labels of what is indexed, of each index and of what comes out; None if it is not simple.

    Simple are indices of one shape, for neighbouring dimensions.
    """
    if len(set(map(tuple, shapes))) != 1 or list(dims) != list(range(dims[0], dims[0] + len(dims))):
        return None
    index: Axes = tuple(("index", place) for place in range(len(shapes[0])))
    source: Axes = tuple(None if place in dims else place for place in range(count))
    return source, index, (*source[: dims[0]], *index, *source[dims[-1] + 1 :])


def _index(call: Call) -> Labels | None:
    source, *indices = call.tensors
    dims = [place for place, one in enumerate(call["indices"]) if one is not None]
    if not indices or any(str(one.dtype).endswith(("bool", "uint8")) for one in indices):
        return None
    labels = _indexed([one.shape for one in indices], dims, source.ndim)
    if labels is None:
        return None
    whole, index, out = labels
    return Labels([whole, *[index] * len(indices)], [out], linear=_FIRST)


def _place(call: Call) -> Labels | None:
    """The adjoint: what comes from several places is added up."""
    shape, dims = tuple(call["shape"]), list(call["dims"])
    indices = call.tensors[1:]
    if any(str(one.dtype).endswith(("bool", "uint8")) for one in indices):
        return None
    labels = _indexed([one.shape for one in indices], dims, len(shape))
    if labels is None or len(dims) != len(indices):
        return None
    whole, index, out = labels
    made = Labels([out, *[index] * len(indices)], [whole], sums=frozenset(index), linear=_FIRST)
    made.shapes, made.out_shapes = {"shape": shape}, [shape]
    return made


def _embedding(call: Call) -> Labels:
    """Rows that another rank has are zeros here, and added up over ranks."""
    places = tuple(range(len(call.shapes[1])))
    made = Labels(
        [("row", "column"), places], [(*places, "column")], sums=frozenset(("row",)), linear=_FIRST
    )

    def compute(call: Call, parts: Sequence[Any], starts: Sequence[Any], changed: Any) -> Any:
        weight, index = parts
        whole = call.shapes[0][0]
        if weight.shape[0] == whole:
            return call.on(parts, {})
        if bool(((index < 0) | (index >= whole)).any()):
            raise IndexError(f"embedding: an index is out of range of {whole} rows.")
        index = index - starts[0][0]
        length = weight.shape[0]
        if not length:
            return weight.new_zeros((*index.shape, weight.shape[1]))
        outside = (index < 0) | (index >= length)
        rows = call.on((weight, index.masked_fill(outside, 0)), {"padding_idx": -1})
        return rows.masked_fill(outside.unsqueeze(-1), 0)

    made.compute = compute
    return made


def _embedding_adjoint(call: Call) -> Labels:
    shape = tuple(call["shape"])
    places = tuple(range(len(call.shapes[1])))
    alone = (None,) * len(places) if call["scale_grad_by_freq"] else places
    return Labels(
        [(*alone, "column"), alone],
        [(None, "column")],
        sums=frozenset(alone) - {None},
        linear=_FIRST,
        shapes={"shape": shape},
        out_shapes=[shape],
    )


# Norms --------------------------------------------------------------------------------------------


def _layer_norm(call: Call) -> Labels:
    dims = len(call.shapes[0])
    lead = dims - len(call["normalized_shape"])
    axes: Axes = (*range(lead), *(None,) * (dims - lead))
    rest = [(None,) * len(shape) for shape in call.shapes[1:]]
    return Labels([axes, *rest], [axes, axes, axes])


def _group_norm(call: Call) -> Labels:
    axes: Axes = (0, *(None,) * (len(call.shapes[0]) - 1))
    rest = [(None,) * len(shape) for shape in call.shapes[1:]]
    made = Labels([axes, *rest], [axes, (0, None), (0, None)])
    made.change = lambda call, parts: {"N": parts[0].shape[0]}
    return made


def _batch_norm(call: Call) -> Labels:
    """Channels are apart; examples too where statistics are given."""
    dims = len(call.shapes[0])
    axes: Axes = (None if call["training"] else "n", "c", *(None,) * (dims - 2))
    rest = [("c",) for _ in call.shapes[1:]]
    statistics: Axes = ("c",) if call["training"] else (None,)
    given = frozenset(("n", "c")) if not call["training"] else frozenset()
    # Where statistics are given none come out: two empty tensors, sums as well as any.
    return Labels([axes, *rest], [axes, statistics, statistics], sums=given)


def _over(call: Call, *, weight: bool = False) -> Labels | None:
    """Ours, with what is normed over as one option."""
    over: Any = call["over"]
    if call.given.get("known") is not None:
        return None
    own = call.shapes[call.position("self")]
    dims = len(own)
    if over.groups is not None:
        labels: list[Any] = [0, *(None,) * (dims - 1)]
    else:
        gone = {dim % dims for dim in over.dims}
        labels = [None if place in gone else place for place in range(dims)]
    axes = tuple(labels)
    channel: Axes | None = None if over.channel is None else (labels[over.channel],)
    inputs: list[Axes] = []
    for name, value in call.given.items():
        if hasattr(value, "placements") or hasattr(value, "new_zeros"):
            whole = name in ("gradient", "self")
            inputs.append(axes if whole else channel or (None,) * value.ndim)
    if not weight:
        return Labels(inputs, [axes])
    shape = tuple(call["shape"])
    out = channel or (None,) * len(shape)
    return Labels(
        inputs,
        [out],
        sums=frozenset(labels) - {None} - set(out),
        linear=_FIRST,
        shapes={"shape": shape},
        out_shapes=[shape],
    )


_TO_RULES: list[tuple[str, Rule]] = [
    ("_softmax _log_softmax _softmax_adjoint _log_softmax_adjoint softmax log_softmax", _along),
    ("cumprod cummax cummin logcumsumexp sort argsort topk glu renorm", _along),
    ("cumsum reverse_cumsum", partial(_along, linear=True)),
    ("put_back add_back pick clear shifted recurrence", _along),
    ("scatter scatter_add scatter_reduce", _along),
    ("gather", _gather),
    ("_gather_adjoint", _gather_adjoint),
    ("index_select", _index_select),
    ("_index_select_adjoint", _index_select_adjoint),
    ("embedding", _embedding),
    ("_embedding_adjoint", _embedding_adjoint),
    ("index", _index),
    ("_place", _place),
    ("native_layer_norm", _layer_norm),
    ("native_group_norm", _group_norm),
    ("native_batch_norm", _batch_norm),
    ("layer_standardise group_standardise batch_standardise _standardise_adjoint", _over),
    ("_weight_adjoint", partial(_over, weight=True)),
]
RULES: dict[str, Rule] = {name: rule for names, rule in _TO_RULES for name in names.split()}
# The norm of each slice is along all other dimensions.
RULES.pop("renorm")
