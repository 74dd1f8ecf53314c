"""`torch.distributed.tensor.parallel`: a module's matrices shared out over ranks.

`style` says how one module is, `plan` applies styles to a model, `loss` is for scores in parts.
"""

from __future__ import annotations

from pullback.distributed.tensor.parallel.loss import loss_parallel
from pullback.distributed.tensor.parallel.plan import parallelize_module
from pullback.distributed.tensor.parallel.style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]
