"""`torch.distributed.pipelining.schedules`: a batch through all stages, and its gradients back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.distributed.pipelining import orders
from pullback.distributed.pipelining.messages import StageError
from pullback.distributed.pipelining.microbatch import (
    merge_chunks,
    split,
    split_args_kwargs_into_chunks,
)
from pullback.distributed.pipelining.orders import Step
from pullback.distributed.pipelining.stage import PipelineStage

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "get_schedule_class",
]


class _PipelineSchedule:
    """Runs an order of forwards and backwards over the stages of this rank."""

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if n_microbatches < 1:
            raise ValueError(f"{type(self).__name__}: there is 1 microbatch or more.")
        self._stages = {stage.stage_index: stage for stage in stages}
        for stage in stages:
            stage.beside(stages)
        self._n_microbatches, self._loss_fn = n_microbatches, loss_fn
        self._args_spec, self._kwargs_spec = args_chunk_spec, kwargs_chunk_spec
        self._merge_spec, self.scale_grads = output_merge_spec, scale_grads
        self._has_backward = loss_fn is not None
        self._order = self._steps()

    def _steps(self) -> list[Step]:
        raise NotImplementedError

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Take a whole batch through all stages, with gradients if there is a loss function.

        All ranks call it: the one with the first stage with the input, the one with the last with
        `target=`, and with `losses=`, a list that gets each microbatch's loss. The last stage's
        rank is given the output. Gradients add up as in one process, those of the mean of the
        microbatches' losses unless `scale_grads=False`.
        """
        if self._has_backward and not get_mode().grad:
            raise RuntimeError("step() computes gradients, which are off here; eval() does not.")
        for stage in self._stages.values():
            stage.begin()
            stage.has_backward = self._has_backward
        try:
            found = self._losses(args, kwargs, target, loss_kwargs or {})
        except BaseException as error:
            self._tell(error)
            raise
        for stage in self._stages.values():
            stage.finish()
        if losses is not None and found:
            losses[:] = found
        last = next((stage for stage in self._stages.values() if stage.is_last), None)
        if last is None or not return_outputs:
            return None
        chunks = [last.output_chunks[n] for n in range(self._n_microbatches)]
        return merge_chunks(chunks, self._merge_spec)

    def eval(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """A whole batch through all stages, without gradients."""
        before = self._has_backward
        self._has_backward = False
        try:
            return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._has_backward = before

    def _losses(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], target: Any, extra: dict[str, Any]
    ) -> list[Tensor]:
        count = self._n_microbatches
        given, named = split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_spec, self._kwargs_spec
        )
        targets = split(target, count)
        scale = 1.0 / count if self.scale_grads else 1.0
        losses: dict[int, Tensor] = {}
        for forward, index, n in self._order:
            stage = self._stages[index]
            if forward:
                output = stage.forward(n, given[n], named[n])
                if stage.is_last and self._loss_fn is not None and target is not None:
                    losses[n] = self._loss_fn(output, targets[n], **extra)
            elif self._has_backward:
                if stage.is_last and n not in losses:
                    raise RuntimeError("step(): the last stage's rank gives target= for the loss.")
                stage.backward(n, losses.get(n), scale)
        return [losses[n].detach() for n in sorted(losses)]

    def _tell(self, error: BaseException) -> None:
        """Let nobody wait for this rank's stages."""
        told = str(error)
        if not isinstance(error, StageError):
            first = next(iter(self._stages.values()))
            numbers = " and ".join(map(str, self._stages))
            told = f"Stage {numbers} on rank {first.group_rank}: {type(error).__name__}: {error}"
        for stage in self._stages.values():
            stage.fail(told)


class PipelineScheduleSingle(_PipelineSchedule):
    """One stage on each rank."""

    def __init__(
        self, stage: PipelineStage, n_microbatches: int, *args: Any, **kwargs: Any
    ) -> None:
        if stage.num_stages != stage.group_size:
            raise ValueError(
                f"{type(self).__name__}: {stage.num_stages} stages on {stage.group_size} ranks; "
                "it is for one each, ScheduleInterleaved1F1B for several."
            )
        self._stage = stage
        super().__init__([stage], n_microbatches, *args, **kwargs)


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches forwards, then all of them backwards.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> def train():
    ...     stage = PipelineStage(torch.nn.Linear(2, 2), dist.get_rank(), 2)
    ...     schedule = ScheduleGPipe(stage, 4, loss_fn=torch.nn.functional.mse_loss)
    ...     if stage.is_first:
    ...         schedule.step(torch.ones(8, 2))
    ...     else:
    ...         schedule.step(target=torch.ones(8, 2), losses=(losses := []))
    ...     return stage.submod.weight.grad.shape
    >>> dist.threads.run(train, 2)
    [torch.Size([2, 2]), torch.Size([2, 2])]
    """

    def _steps(self) -> list[Step]:
        stage = self._stage
        return orders.gpipe(stage.stage_index, stage.num_stages, self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """Backward as soon as it can be: a rank keeps no more microbatches than there are stages.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.pipelining import PipelineStage, Schedule1F1B
    >>> def outputs():
    ...     stage = PipelineStage(torch.nn.Identity(), dist.get_rank(), 2)
    ...     schedule = Schedule1F1B(stage, 2)
    ...     return schedule.step(torch.ones(2)) if stage.is_first else schedule.step()
    >>> dist.threads.run(outputs, 2)
    [None, tensor([1., 1.])]
    """

    def _steps(self) -> list[Step]:
        stage, count = self._stage, self._n_microbatches
        return orders.one_forward_one_backward(stage.stage_index, stage.num_stages, count)


class PipelineScheduleMulti(_PipelineSchedule):
    """Several stages on each rank: those whose number is the rank's, modulo the ranks."""

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int, *args: Any, **kwargs: Any
    ) -> None:
        first = stages[0]
        self._rank, self._ranks, self._local = first.group_rank, first.group_size, len(stages)
        wanted = list(range(first.group_rank, first.num_stages, first.group_size))
        if [stage.stage_index for stage in stages] != wanted or (
            first.num_stages % first.group_size
        ):
            raise ValueError(
                f"{type(self).__name__}: this rank has the stages {wanted} of {first.num_stages}, "
                f"in this order, got {[stage.stage_index for stage in stages]}; all ranks have "
                "equally many."
            )
        super().__init__(stages, n_microbatches, *args, **kwargs)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """1F1B with several stages on each rank, so that ranks wait less.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
    >>> def outputs():
    ...     mine = [PipelineStage(torch.nn.ReLU(), dist.get_rank() + k, 4) for k in (0, 2)]
    ...     schedule = ScheduleInterleaved1F1B(mine, 2)
    ...     return schedule.step(torch.ones(2)) if mine[0].is_first else schedule.step()
    >>> dist.threads.run(outputs, 2)
    [None, tensor([1., 1.])]
    """

    def _steps(self) -> list[Step]:
        return orders.interleaved(self._rank, self._ranks, self._local, self._n_microbatches)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through one stage after the other, and back."""

    def _steps(self) -> list[Step]:
        return orders.looped_bfs(self._rank, self._ranks, self._local, self._n_microbatches)


_CLASSES = {
    name.lower(): kind
    for kind in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleLoopedBFS)
    for name in (kind.__name__.removeprefix("Schedule"),)
}


def get_schedule_class(schedule_name: str) -> Any:
    """The class of a schedule by its name.

    >>> from pullback.distributed.pipelining.schedules import get_schedule_class
    >>> get_schedule_class("1F1B").__name__
    'Schedule1F1B'
    """
    found = _CLASSES.get(schedule_name.lower().removeprefix("schedule"))
    if found is None:
        raise ValueError(f"There is no schedule {schedule_name!r}, but {sorted(_CLASSES)}.")
    return found


__dir__ = _only_public(globals())
