"""Compositions of operators that autocast casts as a whole, by module and name.

While a region is open anywhere, their code is replaced by two lines that ask
(`operators/dispatch/intercept.py`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from operator import attrgetter
from types import FunctionType
from typing import Any

from pullback.core.mode import Mode
from pullback.operators.dispatch.intercept import Watched, castings
from pullback.operators.running.autocasting import AS_GIVEN, NARROW, WIDE, call

__all__ = ["compositions"]

_FUNCTIONAL = "pullback.nn.functional"

_COMPOSITIONS = {
    NARROW: {
        "pullback": "matmul Tensor.__matmul__ chain_matmul prelu einsum tensordot inner",
        "pullback.linalg": "multi_dot",
        _FUNCTIONAL: """
            conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
            scaled_dot_product_attention prelu
        """,
    },
    AS_GIVEN: {"pullback": "bilinear"},  # torch computes it outside of autocast's reach
    WIDE: {
        "pullback": """
            cdist prod inverse cholesky cholesky_inverse cholesky_solve lu_solve qr svd
            triangular_solve geqrf orgqr ormqr pinverse lu
        """,
        "pullback.linalg": """
            matrix_rank cond solve lstsq eig eigvals eigh eigvalsh cholesky cholesky_ex svd svdvals
            qr inv inv_ex householder_product tensorinv tensorsolve
        """,
        "pullback.fft": """
            fft ifft rfft irfft fft2 hfft ihfft rfft2 irfft2 ifft2
        """,
        _FUNCTIONAL: """
            avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d fractional_max_pool2d
            fractional_max_pool3d grid_sample binary_cross_entropy binary_cross_entropy_with_logits
            mse_loss l1_loss smooth_l1_loss huber_loss nll_loss cross_entropy kl_div
            cosine_embedding_loss hinge_embedding_loss triplet_margin_loss poisson_nll_loss
            multilabel_margin_loss multi_margin_loss ctc_loss soft_margin_loss pad
        """,
    },
}


@cache
def _find() -> list[FunctionType]:
    """The functions, which stay the same objects: every region asks for them."""
    found = []
    for policy, modules in _COMPOSITIONS.items():
        for module, names in modules.items():
            for name in names.split():
                function = attrgetter(name)(import_module(module))
                castings[function] = _caster(function, policy)
                found.append(function)
    return found


def _caster(function: FunctionType, policy: str) -> Any:
    applies = _APPLIES.get(function.__name__)

    def take(plain: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Mode) -> Any:
        if "cpu" not in mode.autocast.enabled or kwargs.get("out") is not None:
            return plain(*args, **kwargs)
        if applies is not None and not applies(*args, **kwargs):
            return plain(*args, **kwargs)
        return call(plain, policy, args, kwargs, mode)

    return take


# Which calls of a function are cast ---------------------------------------------------------------


def _pads_by_copies(
    input: Any, pad: Any, mode: str = "constant", value: float | None = None
) -> bool:
    return mode in ("reflect", "replicate")


def _contracts(*args: Any) -> bool:
    """Whether an einsum sums over a label of two operands; else it is elementwise, or a sum."""
    if isinstance(args[0], str):
        inputs, arrow, output = args[0].replace(" ", "").replace("...", "").partition("->")
        operands: Any = inputs.split(",")
        kept: Any = output if arrow else ()
    else:
        pairs = len(args) // 2
        operands = args[1 : 2 * pairs : 2]
        kept = args[-1] if len(args) % 2 else ()
    labels = [label for operand in operands for label in set(operand)]
    return any(labels.count(label) > 1 and label not in kept for label in labels)


def _of_a_matrix(a: Any, b: Any, *others: Any, **named: Any) -> bool:
    """Two vectors are a dot product, which is left alone."""
    return not (a.ndim == b.ndim == 1)


def _inner_of_a_matrix(input: Any, other: Any, **named: Any) -> bool:
    return bool(input.ndim and other.ndim) and _of_a_matrix(input, other)


_APPLIES: dict[str, Any] = {
    "einsum": _contracts,
    "inner": _inner_of_a_matrix,
    "pad": _pads_by_copies,
    "tensordot": _of_a_matrix,
}
compositions = Watched(_find)
