"""`torch.distributed.pipelining.stage`: a part of a model, what it computes and hands on."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.distributed.group import ProcessGroup, Work
from pullback.distributed.pipelining.messages import Edge
from pullback.distributed.world import group_of
from pullback.engine.backward import backward
from pullback.nn.modules.module import Module

__all__ = ["PipelineStage", "build_stage"]


class PipelineStage:
    """One of the stages of a model: what it returns is what the next one is called with.

    Stage `n` is on rank `n % group.size()` of the group. Keywords go to every stage, positional
    arguments to the first alone.

    Args:
        submodule: the part of the model.
        stage_index: which part it is, from 0 on.
        num_stages: how many there are.
        device: where what comes from the stage before is put.
        input_args: taken; shapes come with each message.
        output_args: taken, for the same reason.
        group: the ranks that have stages; None is all.
        dw_builder: must be None: backward is not taken apart.
        get_mesh: taken; what stages hand on does not lie over a mesh.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any = "cpu",
        input_args: Any = None,
        output_args: Any = None,
        group: Any = None,
        dw_builder: Any = None,
        get_mesh: Any = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"PipelineStage: there is no stage {stage_index} of {num_stages}.")
        if dw_builder is not None:
            raise NotImplementedError("PipelineStage: backward is not taken apart (dw_builder).")
        known = group_of(group)
        if known is None:
            raise ValueError("PipelineStage: this rank is not in the process group.")
        if stage_index % known.size() != known.rank():
            raise ValueError(
                f"PipelineStage: stage {stage_index} is for rank {stage_index % known.size()} of "
                f"{known.size()}, this is {known.rank()}."
            )
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = device, group
        self.group_rank, self.group_size = known.rank(), known.size()
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        self.has_backward = False
        self._step = 0
        # Neighbours on this rank, in pipelines that go around; edges to those on others.
        self._local: dict[int, PipelineStage] = {}
        self._handed: dict[tuple[str, int], list[Tensor | None]] = {}
        self._edges = self._made_edges(known)
        self.begin()

    def _made_edges(self, group: ProcessGroup) -> dict[str, Edge]:
        if group.size() == 1:
            return {}
        here, size = self.stage_index, group.size()
        made = {}
        if not self.is_first:
            before = (here - 1) % size
            made["inputs"] = Edge(group, before, 2 * here, device=self.device)
            made["their gradients"] = Edge(group, before, 2 * here + 1, device=self.device)
        if not self.is_last:
            after = (here + 1) % size
            made["outputs"] = Edge(group, after, 2 * here + 2, device=self.device)
            made["gradients"] = Edge(group, after, 2 * here + 3, device=self.device)
        return made

    def beside(self, stages: list[PipelineStage]) -> None:
        """Learn which neighbours are on this rank."""
        self._local = {
            one.stage_index: one for one in stages if abs(one.stage_index - self.stage_index) == 1
        }

    def begin(self) -> None:
        """Begin a step."""
        self._step += 1
        self._kept: dict[int, tuple[list[Any], list[Any]]] = {}
        self._handed.clear()
        self.output_chunks: dict[int, Any] = {}
        self._works: list[Work] = []

    # ------------------------------------------------------------------ what comes and goes

    def _hand_on(self, to: str, microbatch: int, tensors: list[Tensor | None]) -> None:
        """To the next stage, or gradients to the one before."""
        onwards = to == "outputs"
        other = self._local.get(self.stage_index + (1 if onwards else -1))
        if other is None:
            self._works += self._edges[to].send(self._step, tensors)
            return
        kind = "inputs" if onwards else "gradients"
        other._handed[kind, microbatch] = [
            None if one is None else one.detach().requires_grad_(one.requires_grad)
            for one in tensors
        ]

    def _wait_for(self, what: str, microbatch: int) -> list[Tensor | None]:
        """What the stage before, or after, has for a microbatch: they come in order."""
        if (what, microbatch) in self._handed:
            return self._handed.pop((what, microbatch))
        return self._edges[what].receive(self._step)

    def finish(self) -> None:
        """Wait until all that was handed on has arrived."""
        for work in self._works:
            work.wait()
        self._works.clear()

    def fail(self, told: str) -> None:
        """Tell the neighbours that nothing more comes in this step."""
        ways = ("outputs", "their gradients") if self.has_backward else ("outputs",)
        for way in ways:
            if way in self._edges:
                self._edges[way].fail(self._step, told)

    # ------------------------------------------------------------------ computing

    def forward(self, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One microbatch through the stage."""
        if not self.is_first:
            args = tuple(self._wait_for("inputs", microbatch))
        output = self.submod(*args, **kwargs)
        if self.is_last:
            self.output_chunks[microbatch] = output
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        if not self.is_last:
            wrong = next((one for one in outputs if not isinstance(one, Tensor)), None)
            if wrong is not None:
                raise TypeError(
                    f"Stage {self.stage_index} returned a {type(wrong).__name__}; stages hand on "
                    "a tensor or several."
                )
            self._hand_on("outputs", microbatch, list(outputs))
        if self.has_backward and get_mode().grad:
            self._kept[microbatch] = list(args), outputs
        return output

    def backward(self, microbatch: int, loss: Tensor | None, scale: float) -> None:
        """Gradients of one microbatch: of the loss, or of what the next stage has got."""
        inputs, outputs = self._kept.pop(microbatch)
        if self.is_last:
            assert loss is not None
            if loss.requires_grad:
                backward(loss, loss.detach().new_full((), scale).expand(loss.shape))
        else:
            given = self._wait_for("gradients", microbatch)
            pairs = [
                (output, gradient)
                for output, gradient in zip(outputs, given, strict=True)
                if output.requires_grad and gradient is not None
            ]
            if pairs:
                backward([output for output, _ in pairs], [gradient for _, gradient in pairs])
        if not self.is_first:
            self._hand_on("their gradients", microbatch, [one.grad for one in inputs])

    def __repr__(self) -> str:
        return (
            f"PipelineStage({self.stage_index} of {self.num_stages}, {type(self.submod).__name__})"
        )


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: Any, device: Any, group: Any = None
) -> PipelineStage:
    """A stage of a model that `pipeline` has split."""
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)


__dir__ = _only_public(globals())
