"""What the page of accuracy measures: every operator that adds up, forwards or backwards.

A case is a function of a library and its tensors. The library is pullback, or one that looks like
it, so the same cases can be put to another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["BOUND", "CASES", "GROUPS", "Case", "cases_of"]

BOUND = 8.0  # units in the last place of the largest result
# Exponentials of differences from a logarithm that is itself rounded: torch has 8 and 15.
_OF_LOGARITHMS = 16.0
# Gradients that are what is left of others, less their mean: torch has 25.
_OF_DIFFERENCES = 16.0

Shapes = Callable[[int], tuple[Any, ...]]


class Case(NamedTuple):
    """One call, at any number of elements."""

    group: str
    name: str
    shapes: Shapes  # of the tensors, for so many elements; those of None are targets, classes
    call: Callable[..., Any]
    needs: tuple[int, ...] = (0,)  # which tensors want a gradient
    equal: bool = True  # whether elements that are all equal are asked for as well
    bound: float = BOUND
    classes: int = 0  # of targets that are numbers of classes


GROUPS = ("reductions", "broadcasting", "norms", "losses")
CASES: list[Case] = []


def _add(group: str, name: str, shapes: Shapes, call: Any, *needs: int, **more: Any) -> None:
    CASES.append(Case(group, name, shapes, call, needs or (0,), **more))


# Reductions: everything, many rows, few long rows, and arrays that do not lie in order ------------


def _side(n: int) -> int:
    return max(int(n**0.5), 1)


def _flat(n: int) -> tuple[Any, ...]:
    return ((n + 3,),)


def _tall(n: int) -> tuple[Any, ...]:
    return ((n // 4 + 1, 4),)


def _wide(n: int) -> tuple[Any, ...]:
    return ((3, n // 3 + 1),)


def _square(n: int) -> tuple[Any, ...]:
    return ((_side(n) + 1, _side(n)),)


def _images(n: int) -> tuple[Any, ...]:
    return ((n // 192 + 2, 3, 8, 8),)


_WAYS: dict[str, tuple[Shapes, Callable[[Any], Any], Any]] = {
    "all": (_flat, lambda x: x, None),
    "over rows": (_tall, lambda x: x, 0),
    "along rows": (_wide, lambda x: x, 1),
    "rows of a transposed": (_square, lambda x: x.t(), 1),
    "columns of a transposed": (_square, lambda x: x.t(), 0),
    "every third of every second": (_square, lambda x: x[::2, ::3], 0),
    "by channel": (_images, lambda x: x, (0, 2, 3)),
}

# Functions of library, tensor and dims; whether elements may be equal.
_REDUCTIONS: dict[str, tuple[Callable[..., Any], bool]] = {
    "sum": (lambda t, x, dim: x.sum() if dim is None else x.sum(dim), True),
    "mean": (lambda t, x, dim: x.mean() if dim is None else x.mean(dim), True),
    "nansum": (lambda t, x, dim: t.nansum(x, dim), True),
    "nanmean": (lambda t, x, dim: t.nanmean(x, dim), True),
    "logsumexp": (lambda t, x, dim: t.logsumexp(x, 0 if dim is None else dim), True),
    "norm of order 1": (lambda t, x, dim: t.linalg.vector_norm(x, 1, dim), True),
    "norm": (lambda t, x, dim: t.linalg.vector_norm(x, 2, dim), True),
    "norm of order 3": (lambda t, x, dim: t.linalg.vector_norm(x, 3, dim), True),
    "var": (lambda t, x, dim: t.var(x, dim), False),
    "std": (lambda t, x, dim: t.std(x, dim), False),
}
for _name, (_function, _equal) in _REDUCTIONS.items():
    for _way, (_shapes, _seen, _dim) in _WAYS.items():

        def _call(t: Any, x: Any, f: Any = _function, seen: Any = _seen, dim: Any = _dim) -> Any:
            return f(t, seen(x), dim)

        _bound = _OF_LOGARITHMS if _name == "logsumexp" else BOUND
        _add("reductions", f"{_name}, {_way}", _shapes, _call, equal=_equal, bound=_bound)

for _name in ("softmax", "log_softmax"):
    _add("reductions", f"{_name}, along rows", _wide,
         lambda t, x, name=_name: getattr(t, name)(x, 1), equal=False,
         bound=_OF_LOGARITHMS)  # fmt: skip
    _add("reductions", f"{_name}, over rows", _tall,
         lambda t, x, name=_name: getattr(t, name)(x, 0), equal=False,
         bound=_OF_LOGARITHMS)  # fmt: skip
_add("reductions", "dist", lambda n: ((n,), (n,)), lambda t, x, y: t.dist(x, y * 0.5), 0, 1)
_add("reductions", "trace", lambda n: ((_side(n), _side(n)),), lambda t, x: t.trace(x))
_add("reductions", "cosine_similarity", lambda n: ((3, n // 3), (3, n // 3)),
     lambda t, x, y: t.nn.functional.cosine_similarity(x, y, 1), 0, 1, equal=False)  # fmt: skip
_add("reductions", "global average pool", lambda n: ((1, 4, _side(n // 4), _side(n // 4)),),
     lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 1))  # fmt: skip


# Broadcasting: what a small operand gets back of a large result -----------------------------------

# The operators of two tensors that have gradients for both where both are between 0.1 and 1.
_BROADCAST: dict[str, Callable[..., Any]] = {
    "add": lambda t, x, y: x + y,
    "sub": lambda t, x, y: x - y,
    "mul": lambda t, x, y: x * y,
    "div": lambda t, x, y: x / y,
    "pow": lambda t, x, y: x**y,
    "maximum": lambda t, x, y: t.maximum(x, y * 2),
    "minimum": lambda t, x, y: t.minimum(x, y),
    "fmax": lambda t, x, y: t.fmax(x, y * 2),
    "where": lambda t, x, y: t.where(x > 0.05, y, x),
    "atan2": lambda t, x, y: t.atan2(y, x),
    "hypot": lambda t, x, y: t.hypot(x, y),
    "logaddexp": lambda t, x, y: t.logaddexp(x, y),
    "xlogy": lambda t, x, y: t.xlogy(x + 1, y + 1),
    "addcmul": lambda t, x, y: t.addcmul(x, x, y),
    "addcdiv": lambda t, x, y: t.addcdiv(x, x, y),
    "lerp": lambda t, x, y: t.lerp(x, y, 0.25),
    "clamp": lambda t, x, y: t.clamp(x, min=y * 2),
    "copysign": lambda t, x, y: t.copysign(y, x),
    "fmod": lambda t, x, y: t.fmod(y, x + 2),
    "expand": lambda t, x, y: y.expand(x.shape),
    "masked_fill": lambda t, x, y: t.where(x > 2, x, y),
}
_SMALL: dict[str, Shapes] = {
    "a row": lambda n: ((n // 4 + 1, 4), (4,)),
    "a wide row": lambda n: ((n // 256 + 1, 256), (256,)),
    "a column": lambda n: ((3, n // 3 + 1), (3, 1)),
    "a number": lambda n: ((_side(n), _side(n)), ()),
    "channels": lambda n: ((n // 192 + 2, 3, 8, 8), (3, 1, 1)),
}
for _name, _function in _BROADCAST.items():
    for _way, _shapes in _SMALL.items():
        _add("broadcasting", f"{_name}, {_way}", _shapes, _function, 1)
_add("broadcasting", "linear's bias", lambda n: ((n // 2, 2), (2, 2), (2,)),
     lambda t, x, w, b: t.nn.functional.linear(x, w, b), 2)  # fmt: skip
_add("broadcasting", "addmm's bias", lambda n: ((2,), (n // 2, 2), (2, 2)),
     lambda t, b, x, w: t.addmm(b, x, w), 0)  # fmt: skip
_add("broadcasting", "conv2d's bias", lambda n: ((n // 256 + 1, 1, 10, 10), (4, 1, 3, 3), (4,)),
     lambda t, x, w, b: t.nn.functional.conv2d(x, w, b), 2)  # fmt: skip
_add("broadcasting", "prelu's weight", lambda n: ((n // 256 + 1, 4, 8, 8), (4,)),
     lambda t, x, w: t.nn.functional.prelu(-x, w), 1)  # fmt: skip
_add("broadcasting", "repeat", lambda n: ((4,), (n // 4,)),
     lambda t, x, y: x.repeat(len(y), 1), 0)  # fmt: skip


# Norms --------------------------------------------------------------------------------------------

# Squares, so that what weights get is a sum of squares and does not cancel.
_RANDOM: dict[str, Any] = {"equal": False}
_add("norms", "layer_norm of rows", lambda n: ((n // 64 + 1, 64), (64,), (64,)),
     lambda t, x, w, b: t.nn.functional.layer_norm(x, (64,), w, b) ** 2, 0, 1, 2,
     **_RANDOM)  # fmt: skip
_add("norms", "layer_norm of wide rows", lambda n: ((n // 4096 + 2, 4096), (4096,), (4096,)),
     lambda t, x, w, b: t.nn.functional.layer_norm(x, (4096,), w, b) ** 2, 0, 1, 2,
     **_RANDOM)  # fmt: skip
_add("norms", "layer_norm of everything", lambda n: ((2, n // 2), (n // 2,), (n // 2,)),
     lambda t, x, w, b: t.nn.functional.layer_norm(x, x.shape[1:], w, b) ** 2, 0, 1, 2,
     **_RANDOM)  # fmt: skip
_add("norms", "layer_norm without weights", lambda n: ((2, n // 2),),
     lambda t, x: t.nn.functional.layer_norm(x, x.shape[1:]) ** 2,
     bound=_OF_DIFFERENCES, **_RANDOM)  # fmt: skip
_add("norms", "rms_norm", lambda n: ((n // 64 + 1, 64), (64,)),
     lambda t, x, w: t.nn.functional.rms_norm(x, (64,), w) ** 2, 0, 1,
     **_RANDOM)  # fmt: skip
_add("norms", "rms_norm of everything", lambda n: ((2, n // 2), (n // 2,)),
     lambda t, x, w: t.nn.functional.rms_norm(x, x.shape[1:], w) ** 2, 0, 1,
     **_RANDOM)  # fmt: skip
_add("norms", "group_norm", lambda n: ((n // 256 + 1, 4, 8, 8), (4,), (4,)),
     lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b) ** 2, 0, 1, 2,
     **_RANDOM)  # fmt: skip
_add("norms", "group_norm of large images",
     lambda n: ((1, 4, _side(n // 4) + 1, _side(n // 4)), (4,), (4,)),
     lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b) ** 2, 0, 1, 2,
     **_RANDOM)  # fmt: skip
_add("norms", "instance_norm", lambda n: ((1, 4, _side(n // 4), _side(n // 4)), (4,), (4,)),
     lambda t, x, w, b: t.nn.functional.instance_norm(x, weight=w, bias=b) ** 2, 0, 1, 2,
     **_RANDOM)  # fmt: skip
_add("norms", "batch_norm", lambda n: ((n // 256 + 1, 4, 8, 8), (4,), (4,)),
     lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True) ** 2, 0, 1, 2,
     **_RANDOM)  # fmt: skip
_add("norms", "batch_norm of rows", lambda n: ((n // 4 + 1, 4), (4,), (4,)),
     lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True) ** 2, 0, 1, 2,
     **_RANDOM)  # fmt: skip
_add("norms", "normalize", lambda n: ((3, n // 3),),
     lambda t, x: t.nn.functional.normalize(x, dim=1) ** 2,
     **_RANDOM)  # fmt: skip


# Losses -------------------------------------------------------------------------------------------


def _pair(n: int) -> tuple[Any, ...]:
    return (n,), (n,)


_PAIRS: dict[str, tuple[Callable[..., Any], bool]] = {
    "mse_loss": (lambda f, x, y: f.mse_loss(x * 3, y), True),
    "l1_loss": (lambda f, x, y: f.l1_loss(x + 2, y), True),
    "smooth_l1_loss": (lambda f, x, y: f.smooth_l1_loss(x * 3, y), True),
    "huber_loss": (lambda f, x, y: f.huber_loss(x * 3, y, delta=0.5), True),
    "binary_cross_entropy": (lambda f, x, y: f.binary_cross_entropy(x * 0.9, y), True),
    "binary_cross_entropy_with_logits": (
        lambda f, x, y: f.binary_cross_entropy_with_logits(x, y), True,
    ),
    "kl_div": (lambda f, x, y: f.kl_div(-x, y), False),
    "poisson_nll_loss": (lambda f, x, y: f.poisson_nll_loss(x, y), True),
    "soft_margin_loss": (lambda f, x, y: f.soft_margin_loss(x, y), True),
    "gaussian_nll_loss": (lambda f, x, y: f.gaussian_nll_loss(x * 3, y, y), False),
    "hinge_embedding_loss": (lambda f, x, y: f.hinge_embedding_loss(x, y / y), True),
}  # fmt: skip
for _name, (_function, _equal) in _PAIRS.items():
    _add("losses", _name, _pair,
         lambda t, x, y, f=_function: f(t.nn.functional, x, y), equal=_equal)  # fmt: skip
_add("losses", "cross_entropy", lambda n: ((n // 4, 4), None),
     lambda t, x, y: t.nn.functional.cross_entropy(x, y), classes=4)  # fmt: skip
_add("losses", "cross_entropy of many classes", lambda n: ((3, n // 3), None),
     lambda t, x, y: t.nn.functional.cross_entropy(x, y), classes=2)  # fmt: skip
_add("losses", "nll_loss", lambda n: ((n // 4, 4), None),
     lambda t, x, y: t.nn.functional.nll_loss(-x, y), classes=4)  # fmt: skip
_add("losses", "cosine_embedding_loss", lambda n: ((n // 4, 4), (n // 4, 4)),
     lambda t, x, y: t.nn.functional.cosine_embedding_loss(x, y, t.ones_like(x[:, 0])),
     **_RANDOM)  # fmt: skip
_add("losses", "margin_ranking_loss", _pair,
     lambda t, x, y: t.nn.functional.margin_ranking_loss(x, y + 2, t.ones_like(x)))  # fmt: skip
_add("losses", "triplet_margin_loss", lambda n: ((n // 4, 4), (n // 4, 4), (n // 4, 4)),
     lambda t, x, y, z: t.nn.functional.triplet_margin_loss(x, y, z),
     **_RANDOM)  # fmt: skip


def cases_of(group: str) -> list[Case]:
    """The cases of a group, in order."""
    return [one for one in CASES if one.group == group]
