"""Names of operators as users write them, for what a profiler or another tool shows.

Many an operator here is a part of what users call, under a name of its own (`layer_standardise`).
Its node has torch's name (`NativeLayerNormBackward0`), so that tells what it is a part of.
"""

from __future__ import annotations

import re
import sys
from functools import cache

from pullback.core.tensor import Tensor
from pullback.operators.declare import OPERATORS, Op

__all__ = ["torch_name", "user_name"]

# Operators whose underscore torch has too; elsewhere it only says that a user calls another name.
_WITH_UNDERSCORE = {"_to_copy", "_unsafe_view", "_reshape_alias", "_conj", "_conj_physical"}
# Parts of functions that make tensors, and the sign `/`, by torch's names for such.
_PARTS = {"_like": "empty_like", "_new": "new_empty", "true_divide": "div"}
_PREFIXES = {"nn.functional.": "", "special.": "special_", "linalg.": "linalg_", "fft.": "fft_"}


def torch_name(called: str) -> str:
    """Torch's name of an operator, as its profiler shows it."""
    return called if "::" in called else f"aten::{user_name(called)}"


@cache
def user_name(called: str) -> str:
    """`layer_norm` for `layer_standardise`, `gelu` for `nn.functional.gelu`."""
    if called in _WITH_UNDERSCORE or (called.endswith("_") and called in OPERATORS):
        return called
    if called in _PARTS:
        return _PARTS[called]
    for prefix, instead in _PREFIXES.items():
        if called.startswith(prefix):
            return instead + called.removeprefix(prefix)
    ending = "_" if called.endswith("_") and called not in OPERATORS else ""
    op = OPERATORS.get(called) or OPERATORS.get(called.removesuffix("_"))
    if op is None or not _is_ours(op) or _is_public(called.strip("_")):
        return called.partition(".")[0].removeprefix("_")
    return _of_node(op) + ending


def _is_public(name: str) -> bool:
    """Whether users know a function or method of that name."""
    return hasattr(Tensor, name) or hasattr(sys.modules["pullback"], name)


def _is_ours(op: Op) -> bool:
    """Whether its name is known in this package alone."""
    coined = not op.method and not op.aten and _of_node(op) != op.name
    return coined or op.name.startswith("_") or op.name.endswith("_kernel")


def _of_node(op: Op) -> str:
    if op.aten:
        return op.aten.partition(".")[0].removeprefix("_")
    name = re.sub(r"Backward\d*$", "", op.node_name)
    name = re.sub(r"(\d)D(?=[A-Z]|$)", r"\1d", name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=\d)(?=[A-Z][a-z])", "_", name).lower()
