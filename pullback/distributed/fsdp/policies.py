"""What `fully_shard` may be told: dtypes to compute and reduce in, and where parts lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes modules compute (`param_dtype`) and gradients are reduced (`reduce_dtype`).

    Parts of parameters, and so the optimizer's state, keep their own dtype.

    >>> import pullback as torch
    >>> from pullback.distributed.fsdp import MixedPrecisionPolicy
    >>> MixedPrecisionPolicy(param_dtype=torch.float16).cast_forward_inputs
    True
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parts stay on the device of the mesh."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts lie in main memory, which is where they are here anyway."""

    pin_memory: bool = True
