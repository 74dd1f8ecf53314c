"""`aot_export_module`: a module as one functional graph, with its backward if wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pullback
from pullback.autograd import grad
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree
from pullback.export._decompose import without_writes  # type: ignore[import-not-found]
from pullback.export._sizes import Sizes  # type: ignore[import-not-found]
from pullback.export._trace import (  # type: ignore[import-not-found]
    rename,
    run_with,
    state_of,
    traced,
)
from pullback.export.graph_signature import (  # type: ignore[import-not-found]
    InputKind,
    InputSpec,
    OutputKind,
    TensorArgument,
)
from pullback.func.inspection import functionalize
from pullback.fx.graph_module import GraphModule
from pullback.nn.modules.module import Module

__all__ = ["BackwardSignature", "GraphSignature", "aot_export_module"]


@dataclass
class BackwardSignature:
    """Which outputs are gradients, and which is the loss."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class GraphSignature:
    """What the inputs and outputs of the graph are, by the names of its nodes."""

    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]
    parameters_to_mutate: dict[str, str]
    user_inputs_to_mutate: dict[str, str]
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None = None
    input_tokens: list[str] = field(default_factory=list)
    output_tokens: list[str] = field(default_factory=list)


def aot_export_module(
    mod: Module,
    args: Any,
    *,
    decompositions: Mapping[Any, Any] | None = None,
    trace_joint: bool,
    output_loss_index: int | None = None,
    pre_dispatch: bool = False,
    dynamic_shapes: bool | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[GraphModule, GraphSignature]:
    """A module as a graph of its state and arguments, without writes, and what is what in it.

    What the module writes to comes first among the outputs, then its results, then gradients: with
    `trace_joint` those of the result `output_loss_index` by parameters and arguments.

    >>> import pullback as torch
    >>> from pullback._functorch.aot_autograd import aot_export_module
    >>> layer = torch.nn.BatchNorm1d(2)
    >>> graph, signature = aot_export_module(layer, (torch.ones(3, 2),), trace_joint=False)
    >>> list(signature.buffers_to_mutate.values())
    ['running_mean', 'running_var', 'num_batches_tracked']
    """
    if dynamic_shapes:
        raise NotImplementedError(
            "aot_export_module: sizes are those of the arguments; torch.export.export with "
            "dynamic_shapes= lets them vary."
        )
    if trace_joint and (output_loss_index is None or pre_dispatch):
        raise RuntimeError(
            "aot_export_module(trace_joint=True) needs output_loss_index, which result is the "
            "loss, and pre_dispatch=False."
        )
    return _Work(mod, tuple(args), dict(kwargs or {})).made(
        dict(decompositions or {}), output_loss_index if trace_joint else None, whole=pre_dispatch
    )


class _Work:
    """One module being traced."""

    def __init__(self, mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.mod = mod
        self.state = state_of(mod)
        self.leaves, self.in_spec = pytree.tree_flatten((args, kwargs))
        tensors = [one for _, _, one in self.state.values()]
        self.values: list[Any] = [*tensors, *self.leaves]
        self.wanted = [
            n for n, one in enumerate(self.values) if isinstance(one, Tensor) and one.requires_grad
        ]
        self.out_spec: Any = None

    def made(
        self, table: dict[Any, Any], loss: int | None, *, whole: bool
    ) -> tuple[GraphModule, GraphSignature]:
        """The graph and its signature; `loss` is the number of a result, or None."""

        def flat(*given: Any) -> Any:
            results, self.out_spec = run_with(self.mod, list(self.state), given, self.in_spec)
            if loss is None:
                return tuple(results)
            one = results[loss]
            if not isinstance(one, Tensor) or one.numel() != 1 or not one.requires_grad:
                raise RuntimeError(
                    f"aot_export_module: result {loss} is no loss: one number that requires grad."
                )
            gradients = grad(one, [given[n] for n in self.wanted], allow_unused=True)
            return (*[_plain(each) for each in results], *gradients)

        root, graph = traced(
            functionalize(flat), self.values, Sizes(), len(self.state), keeps_whole=whole,
            functional=True, table=table, notes_grad=whole,
        )  # fmt: skip
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        for number, node in enumerate(inputs):
            rename(node, f"arg{number}_1")
        kinds = [
            *((kind, name) for name, (kind, _, _) in self.state.items()),
            *((InputKind.USER_INPUT, None) for _ in self.leaves),
        ]
        specs = [
            InputSpec(kind, TensorArgument(node.name), name)
            for node, (kind, name) in zip(inputs, kinds, strict=True)
        ]
        outputs = without_writes(graph, specs)
        own = [one.arg.name for one in outputs if one.kind is OutputKind.USER_OUTPUT]
        count = self.out_spec.num_leaves
        backward = None if loss is None else self._backward(specs, own[loss], own[count:])

        def named(kind: InputKind) -> dict[str, str]:
            return {one.arg.name: str(one.target) for one in specs if one.kind is kind}

        def written(kind: OutputKind) -> dict[str, str]:
            return {one.arg.name: str(one.target) for one in outputs if one.kind is kind}

        signature = GraphSignature(
            parameters=list(named(InputKind.PARAMETER).values()),
            buffers=list(named(InputKind.BUFFER).values()),
            user_inputs=list(named(InputKind.USER_INPUT)),
            user_outputs=own[:count],
            inputs_to_parameters=named(InputKind.PARAMETER),
            inputs_to_buffers=named(InputKind.BUFFER),
            buffers_to_mutate=written(OutputKind.BUFFER_MUTATION),
            parameters_to_mutate=written(OutputKind.PARAMETER_MUTATION),
            user_inputs_to_mutate=written(OutputKind.USER_INPUT_MUTATION),
            in_spec=self.in_spec,
            out_spec=self.out_spec,
            backward_signature=backward,
        )
        return GraphModule(root, graph), signature

    def _backward(
        self, specs: list[InputSpec], loss: str, gradients: list[str]
    ) -> BackwardSignature:
        pairs = [(name, specs[n]) for n, name in zip(self.wanted, gradients, strict=True) if name]
        return BackwardSignature(
            {name: str(one.target) for name, one in pairs if one.kind is InputKind.PARAMETER},
            {name: one.arg.name for name, one in pairs if one.kind is InputKind.USER_INPUT},
            loss,
        )


def _plain(one: Any) -> Any:
    return one.detach() if isinstance(one, pullback.Tensor) else one
