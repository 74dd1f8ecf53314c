"""`torch.distributed.pipelining`: a model in stages, each on a rank of its own.

`microbatch` cuts a batch, `orders` says which rank does what when, `stage` computes and hands on,
`schedules` runs an order; `splitting` makes stages of a model.
"""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)
from pullback.distributed.pipelining.splitting import Pipe, SplitPoint, pipe_split, pipeline
from pullback.distributed.pipelining.stage import PipelineStage, build_stage

_refuse_others(globals())

__all__: list[str] = _defined(globals())
__dir__ = _only_public(globals())
