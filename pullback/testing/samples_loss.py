"""Sample inputs of losses with margins, of sequences, and of attention."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.testing.cases import Case, Draw, Entry, Fixed, case, entry, kink


def signs(*values: Any) -> Any:
    """Targets that are 1 or -1."""
    return lambda t: Fixed(numpy.array(values, t.dtype))


def integers(*values: Any) -> Array:
    """Class numbers, lengths, offsets."""
    return numpy.array(values, numpy.int64)


def each_reduction(make: Any) -> Any:
    """The case that `make` gives, summed up in each way."""
    return lambda t: [make(t), make(t, reduction="sum"), make(t, reduction="none")]


def triples(t: Draw) -> list[Case]:
    """Anchors, what is near them and what is far."""
    return [
        case(t(4, 3), t(4, 3), t(4, 3)),
        case(t(4, 3), t(4, 3), t(4, 3), margin=3.0, reduction="none"),
        case(t(3), t(3), t(3), reduction="sum"),
    ]


def sequences(t: Draw) -> list[Case]:
    """Paths through classes, of which 0 is the blank.

    The gradient is that of scores before a log-softmax, as in torch: differences do not show it.
    """
    scores = t(5, 2, 4)
    logs = scores - numpy.log(numpy.exp(scores).sum(2, keepdims=True))
    targets = integers([1, 2, 3], [2, 2, 1])
    return [
        kink(logs, targets, integers(5, 5), integers(3, 2)),
        kink(logs, targets, integers(5, 4), integers(3, 2), reduction="none"),
        kink(logs, targets, integers(5, 5), integers(3, 1), reduction="sum", zero_infinity=True),
    ]


def attended(t: Draw) -> list[Case]:
    """With a mask of either sort, and the causal one."""
    return [
        case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 2)),
        case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 2), t.bools(3, 5) | numpy.eye(3, 5, dtype=bool)),
        case(t(2, 3, 4), t(2, 5, 4), t(2, 5, 2), t.fixed(3, 5)),
        case(t(1, 2, 3, 4), t(1, 2, 3, 4), t(1, 2, 3, 4), is_causal=True, scale=0.5),
    ]


def heads(t: Draw) -> list[Case]:
    """Two heads over vectors of four."""
    width, count = 4, 2
    parameters = (t(3 * width, width), t(3 * width), None, None, False, 0.0)
    ends = (t(width, width), t(width))
    query, key, value = t(3, 2, width), t(5, 2, width), t(5, 2, width)
    return [
        case(query, key, value, width, count, *parameters, *ends, need_weights=False),
        case(query, key, value, width, count, *parameters, *ends),
    ]


def bags(t: Draw) -> list[Case]:
    """Bags by offsets, or rows of equal length."""
    rows, starts = integers(0, 2, 1, 3, 3), integers(0, 2)
    return [
        case(rows, t(4, 3), starts),
        case(rows, t(4, 3), starts, mode="sum"),
        case(integers([0, 1], [3, 2]), t(4, 3), mode="sum"),
        case(rows, t(4, 3), starts, mode="sum", per_sample_weights=t(5)),
    ]


LOSSES: dict[str, Entry] = {
    "nn.functional.soft_margin_loss": entry(
        each_reduction(lambda t, **how: case(t(2, 3), signs(*[[1, -1, 1]] * 2)(t), **how))
    ),
    "nn.functional.hinge_embedding_loss": entry(
        each_reduction(lambda t, **how: case(t(2, 3), signs(*[[1, -1, 1]] * 2)(t), **how))
    ),
    "nn.functional.margin_ranking_loss": entry(
        each_reduction(lambda t, **how: case(t(3), t(3), signs(1, -1, 1)(t), margin=0.4, **how))
    ),
    "nn.functional.cosine_embedding_loss": entry(
        each_reduction(lambda t, **how: case(t(3, 4), t(3, 4), signs(1, -1, 1)(t), **how))
    ),
    "nn.functional.multilabel_soft_margin_loss": entry(
        each_reduction(lambda t, **how: case(t(2, 3), t.fixed(2, 3, low=0, high=1), **how))
    ),
    "nn.functional.multi_margin_loss": entry(
        each_reduction(lambda t, **how: case(t(3, 4), integers(0, 3, 2), **how))
    ),
    "nn.functional.multilabel_margin_loss": entry(
        each_reduction(
            lambda t, **how: case(t(2, 4), integers([3, 0, -1, 1], [1, -1, 0, 2]), **how)
        )
    ),
    "nn.functional.triplet_margin_loss": entry(triples),
    "nn.functional.triplet_margin_with_distance_loss": entry(triples),
    "nn.functional.linear_cross_entropy": entry(
        lambda t: [case(t(4, 3), t(5, 3), integers(0, 4, 2, 1))]
    ),
    "nn.functional.ctc_loss": entry(sequences, strided=False),
    "nn.functional.scaled_dot_product_attention": entry(attended),
    "nn.functional.multi_head_attention_forward": entry(heads),
    "nn.functional.embedding_bag": entry(bags),
    "nn.functional.pdist": entry(lambda t: [case(t(4, 3)), case(t(3, 2), 1.0), case(t(1, 2))]),
    "cdist": entry(
        lambda t: [
            case(t(3, 2), t(4, 2)),
            case(t(2, 3, 2), t(2, 4, 2), 1.0),
            case(t(0, 2), t(3, 2)),
        ]
    ),
    "nn.functional.rrelu": entry(lambda t: [case(t(2, 3)), case(t(2, 3), 0.2, 0.4)]),
    "native_batch_norm": entry(
        lambda t: [
            case(t(3, 2, 2), t(2), t(2), None, None, True, 0.1, 1e-5),
            case(t(3, 2), None, None, t.fixed(2), Fixed(t.positive(2)), False, 0.1, 1e-5),
        ]
    ),
    "native_group_norm": entry(
        lambda t: [case(t(2, 4, 3), t(4), t(4), 2, 4, 3, 2, 1e-5)], strided=False
    ),
}
