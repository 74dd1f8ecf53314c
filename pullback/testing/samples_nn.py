"""Sample inputs of what neural networks are made of: softmax, linear maps, norms, losses."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.testing.cases import Case, Draw, DtypeName, Entry, case, entry, kink

IGNORED = -100


def classes(*values: Any) -> Array:
    """Class numbers."""
    return numpy.array(values, numpy.int64)


def along(t: Draw) -> list[Case]:
    """Along any dimension; with infinities, which are exact; in another dtype."""
    return [
        case(t(2, 3).real, 1),
        case(t(2, 3, 2).real, 0),
        case(t(2, 3, 2).real, -2),
        case(t().real, 0),
        case(t(0, 3).real, 1),
        case(t(2, 0).real, 1),
        case(t.ints(2, 3), 1, dtype=DtypeName("float64")),
        kink(t.of([-inf, 0.0, 1.0], [1.0, 2.0, 3.0]).real, 1),
        kink(t.of([-inf, -inf], [inf, 0.0], [nan, 1.0]).real, 1),
    ]


def compared(t: Draw) -> list[Case]:
    """Predictions and targets, summed up in each way."""
    return [
        case(t(2, 3), t(2, 3)),
        case(t(2, 3), t(2, 3), reduction="sum"),
        case(t(2, 3), t(2, 3), reduction="none"),
        case(t(), t()),
        case(t(2, 3), t.fixed(2, 3)),
    ]


def weights(t: Draw) -> Any:
    """Weights of three classes, which take no gradient."""
    return t.fixed(3, low=0.3, high=2.0)


def logits_and_classes(t: Draw) -> list[Case]:
    """Class numbers, with every option."""
    return [
        case(t(4, 3), classes(0, 2, 1, 1)),
        case(t(4, 3), classes(0, 2, 1, 1), weights(t)),
        case(t(4, 3), classes(0, IGNORED, 1, 1)),
        case(t(4, 3), classes(0, 2, 1, 1), weights(t), ignore_index=1),
        case(t(4, 3), classes(0, 2, 1, 1), reduction="sum"),
        case(t(4, 3), classes(0, 2, IGNORED, 1), reduction="none"),
        case(t(3), numpy.array(2)),
        case(t(2, 3, 2), classes([0, 2], [1, 1])),
        case(t(2, 3, 2, 1), classes([[0], [2]], [[1], [1]]), weights(t), reduction="sum"),
    ]


def smoothed(t: Draw) -> list[Case]:
    """Smoothed labels, and targets that are probabilities."""
    return [
        case(t(4, 3), classes(0, 2, 1, 1), label_smoothing=0.2),
        case(t(4, 3), classes(0, 2, IGNORED, 1), weights(t), label_smoothing=0.2),
        case(t(2, 3), t.unit(2, 3)),
        case(t(2, 3), t(2, 3), weights(t), reduction="sum", label_smoothing=0.1),
        case(t(2, 3, 2), t(2, 3, 2), reduction="none"),
    ]


def mapped(t: Draw) -> list[Case]:
    """With and without bias, with any number of leading dimensions."""
    return [
        case(t(2, 3), t(4, 3)),
        case(t(2, 3), t(4, 3), t(4)),
        case(t(3), t(4, 3), t(4)),
        case(t(2, 2, 3), t(4, 3), bias=t(4)),
        case(t(3), t(3)),
        case(t(0, 3), t(4, 3), t(4)),
        case(t(2, 0), t(4, 0), t(4)),
    ]


def normalised(t: Draw) -> list[Case]:
    """Over the last dimension or more, with and without an affine map."""
    return [
        case(t(2, 3), (3,)),
        case(t(2, 3), (3,), t(3), t(3)),
        case(t(2, 3), [3], weight=t(3)),
        case(t(2, 3), [3], bias=t(3)),
        case(t(2, 2, 3), (2, 3), t(2, 3), t(2, 3), 0.1),
        case(t(0, 3), (3,), t(3), t(3)),
    ]


def grouped(t: Draw) -> list[Case]:
    """Channels in groups, with and without an affine map."""
    return [case(t(2, 4), 2), case(t(2, 4, 2), 2, t(4), t(4), 0.1), case(t(2, 4, 2), 1)]


NN: dict[str, Entry] = {
    "softmax": entry(along, expands=True),
    "log_softmax": entry(along, expands=True),
    "nn.functional.softmax": entry(along),
    "nn.functional.log_softmax": entry(along),
    "nn.functional.softmin": entry(lambda t: [case(t(2, 3).real, 1), case(t(2, 3).real, -2)]),
    "nn.functional.linear": entry(mapped),
    "nn.functional.bilinear": entry(lambda t: [case(t(2, 3), t(2, 2), t(4, 3, 2), t(4))]),
    "nn.functional.layer_norm": entry(normalised),
    "layer_norm": entry(lambda t: [case(t(2, 3), (3,), t(3), t(3))]),
    "nn.functional.rms_norm": entry(
        lambda t: [case(t(2, 3).real, (3,)), case(t(2, 3).real, (3,), t(3).real, 0.1)]
    ),
    "rms_norm": entry(lambda t: [case(t(2, 3).real, (3,), t(3).real, 0.1)]),
    "nn.functional.group_norm": entry(grouped),
    "group_norm": entry(grouped),
    "nn.functional.batch_norm": entry(
        lambda t: [
            case(t(4, 2), None, None, training=True),
            case(t(4, 2, 3), None, None, t(2), t(2), training=True, eps=0.1),
            case(t(4, 2), t.fixed(2), t.fixed(2, low=0.3, high=2), t(2), t(2)),
        ]
    ),
    "nn.functional.instance_norm": entry(
        lambda t: [case(t(2, 2, 3)), case(t(2, 2, 3), weight=t(2), bias=t(2), eps=0.1)]
    ),
    "nn.functional.normalize": entry(lambda t: [case(t(2, 3)), case(t(2, 3), 3.0, 0)]),
    "embedding": entry(
        lambda t: [case(t(4, 3), classes(0, 2, 0)), case(t(4, 3), classes([0, 2], [1, 3]))]
    ),
    "nn.functional.embedding": entry(
        lambda t: [
            case(classes(0, 2, 0), t(4, 3)),
            case(classes([0, 2], [1, 3]), t(4, 3)),
            kink(classes(0, 2, 0), t(4, 3), padding_idx=2),
            kink(classes(0, 2, 0), t(4, 3), padding_idx=-4),
            case(numpy.array(1), t(4, 3)),
            case(classes(), t.fixed(4, 3)),
            kink(classes(0, 2, 0), t(4, 3), scale_grad_by_freq=True),
        ]
    ),
    "nn.functional.one_hot": entry(lambda t: [case(t.ints(4)), case(t.ints(2, 2), 6)]),
    "nn.functional.dropout": entry(
        lambda t: [
            case(t(2, 3), 0.5, training=False),
            case(t(2, 3), 0.0),
            case(t(2, 3), 1.0),
            case(t(0, 3), 0.5, training=False),
        ]
    ),
    **{
        f"nn.functional.{name}": entry(lambda t: [case(t(2, 3, 2, 2), 0.5, training=False)])
        for name in ("dropout2d", "alpha_dropout", "feature_alpha_dropout")
    },
    "nn.functional.dropout3d": entry(lambda t: [case(t(1, 2, 1, 2, 2), 0.5, training=False)]),
    "native_layer_norm": entry(lambda t: [case(t(2, 3), (3,), t(3), t(3), 0.1)]),
    "nn.functional.local_response_norm": entry(
        lambda t: [case(t(2, 4, 3), 2), case(t(2, 4, 3), 3, 0.1, 0.5, 2.0)]
    ),
    "nn.functional.gaussian_nll_loss": entry(
        lambda t: [
            case(t(2, 3), t(2, 3), t.positive(2, 3)),
            case(t(2, 3), t(2, 3), t.positive(2, 1), full=True, reduction="sum"),
        ]
    ),
    "nn.functional.poisson_nll_loss": entry(
        lambda t: [
            case(t(2, 3), t.positive(2, 3)),
            case(t.positive(2, 3), t.fixed(2, 3, low=1.2, high=3), log_input=False, full=True),
        ]
    ),
    "nn.functional.mse_loss": entry(compared, expands=True),
    "nn.functional.l1_loss": entry(compared),
    "nn.functional.smooth_l1_loss": entry(lambda t: [*compared(t), case(t(3), t(3), beta=0.5)]),
    "nn.functional.huber_loss": entry(lambda t: [*compared(t), case(t(3), t(3), delta=0.5)]),
    "nn.functional.nll_loss": entry(logits_and_classes),
    "nn.functional.cross_entropy": entry(lambda t: [*logits_and_classes(t), *smoothed(t)]),
    "nn.functional.kl_div": entry(
        lambda t: [
            case(t(2, 3), t.positive(2, 3), reduction="batchmean"),
            case(t(2, 3), t(2, 3), reduction="sum", log_target=True),
        ]
    ),
    "nn.functional.binary_cross_entropy": entry(
        lambda t: [
            case(t(2, 3, low=0.1, high=0.9), t(2, 3, low=0.1, high=0.9)),
            case(t(3, low=0.1, high=0.9), t.fixed(3, low=0.1, high=0.9), t.fixed(3)),
        ]
    ),
    "nn.functional.binary_cross_entropy_with_logits": entry(
        lambda t: [
            case(t(2, 3), t(2, 3, low=0.1, high=0.9)),
            case(t(3), t.fixed(3), t.fixed(3), reduction="sum", pos_weight=t.fixed(3)),
        ]
    ),
    "nn.functional.cosine_similarity": entry(
        lambda t: [case(t(2, 3), t(2, 3)), case(t(2, 3), t(3), dim=-1)]
    ),
    "nn.functional.pairwise_distance": entry(lambda t: [case(t(2, 3), t(2, 3)), case(t(3), t(3))]),
}
