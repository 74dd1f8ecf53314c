"""`ExportedProgram`: a graph, what its inputs and outputs are, and the tensors that it holds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.fx.graph import Graph
from pullback.fx.graph_module import GraphModule
from pullback.nn.parameter import Parameter

from ._running import unlifted
from .dynamic_shapes import UNBOUNDED
from .graph_signature import ExportGraphSignature, InputKind

__all__ = [
    "CallSpec",
    "ExportedProgram",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ValueRanges",
    "default_decompositions",
]


class CallSpec(NamedTuple):
    """How the arguments and the result nest.

    Args:
        in_spec: Tree of `(args, kwargs)`.
        out_spec: Tree of the result.
    """

    in_spec: Any
    out_spec: Any


class ValueRanges(NamedTuple):
    """Between what a size may be."""

    lower: int
    upper: int

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == UNBOUNDED else self.upper}]"


@dataclass
class ModuleCallSignature:
    """The inputs and outputs of a module's call, and how they nest."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: Any
    out_spec: Any
    forward_arg_names: list[str] | None = None


@dataclass
class ModuleCallEntry:
    """A module, by its name, with what its call takes and gives."""

    fqn: str
    signature: ModuleCallSignature | None = None


def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """What `run_decompositions` does where it is given no table: operators -> their definitions.

    >>> import pullback as torch
    >>> len(torch.export.default_decompositions()) > 0
    True
    """
    from pullback._decomp import core_aten_decompositions  # type: ignore[import-not-found]

    table: dict[Any, Callable[..., Any]] = dict(core_aten_decompositions())
    return table


class ExportedProgram:
    """What `export` gives: a graph with a signature, its state, and conditions on its inputs.

    `module()` runs it, `run_decompositions()` gives the same with operators taken apart and without
    writes, `torch.export.save` keeps it. State is shared with the module that was exported.

    Example:
        >>> import pullback as torch
        >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
        >>> program.module()(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    def __init__(
        self,
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        constants: dict[str, Any],
        sizes: Any,
        module_call_graph: list[ModuleCallEntry],
        example_inputs: Any,
        call_spec: CallSpec,
        call_names: tuple[list[str], list[str]],
        dialect: str = "TRAINING",
        root: Any = None,
    ) -> None:
        self._graph_module = GraphModule({} if root is None else root, graph)
        self._graph_signature = graph_signature
        self._state_dict, self._constants = state_dict, constants
        self._sizes, self._module_call_graph = sizes, module_call_graph
        self._example_inputs, self._call_spec = example_inputs, call_spec
        self._call_names, self._dialect = call_names, dialect

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module of flat tensors, state first."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the graph's inputs and outputs are."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and persistent buffers, by name."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Other tensors that the graph takes, by name."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """The same, under an older name."""
        return self._constants

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """Between what each size may be that varies, by the size's name."""
        found = self._sizes.symbols.items()
        return {name: ValueRanges(one.least, one.most) for name, one in found}

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """What the module's call takes and gives."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> Any:
        """The arguments that it was exported with: a tuple, and a dict by name."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        self._example_inputs = value

    @property
    def call_spec(self) -> CallSpec:
        """How arguments and result nest."""
        return self._call_spec

    @property
    def dialect(self) -> str:
        """The word "TRAINING" as exported, "ATEN" after `run_decompositions`."""
        return self._dialect

    def parameters(self) -> Iterator[Parameter]:
        """The parameters."""
        return (one for _, one in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters, with their names."""
        return ((name, self._state_dict[name]) for name in self._graph_signature.parameters)

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        return (one for _, one in self.named_buffers())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers, with their names; those too that a state dict leaves out."""
        fleeting = set(self._graph_signature.non_persistent_buffers)
        for name in self._graph_signature.buffers:
            yield name, (self._constants if name in fleeting else self._state_dict)[name]

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that takes what the exported one took.

        It has the program's own parameters and buffers, trains them and writes to them. Each call
        checks sizes, dtypes and constants, unless `check_guards` is False.
        """
        return unlifted(self, check_guards=check_guards)

    def run_decompositions(
        self,
        decomp_table: Mapping[Any, Callable[..., Any]] | None = None,
        decompose_custom_triton_ops: bool = False,
    ) -> ExportedProgram:
        """The same program in operators below autograd, without writes.

        What was written in place becomes an output that the signature names. `decomp_table` has
        operators and functions that define them; None is `default_decompositions()`, and an empty
        one keeps every operator that a trace shows.
        """
        from ._decompose import decomposed

        return decomposed(self, default_decompositions() if decomp_table is None else decomp_table)

    def validate(self) -> None:
        """Raise where graph and signature do not belong together."""
        self.graph.lint()
        inputs = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        named = [spec.arg.name for spec in self._graph_signature.input_specs]
        if inputs != named:
            raise ValueError(f"The signature speaks of inputs {named}, the graph has {inputs}.")
        count = len(self.graph.output_node().args[0])
        if count != len(self._graph_signature.output_specs):
            raise ValueError(f"The graph has {count} outputs, the signature others.")
        for spec in self._graph_signature.input_specs:
            known = spec.target in self._state_dict or spec.target in self._constants
            if spec.kind is not InputKind.USER_INPUT and not known:
                raise ValueError(f"There is no tensor for {spec.target!r}.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: `module()` gives what can be called."""
        raise RuntimeError("An ExportedProgram is not called; call `program.module()(...)`.")

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        made: ExportedProgram = object.__new__(ExportedProgram)
        made.__dict__.update({name: copy.deepcopy(one, memo) for name, one in vars(self).items()})
        return made

    def __str__(self) -> str:
        code = self._graph_module.print_readable(print_output=False).rstrip()
        body = "\n".join(f"    {line}".rstrip() for line in code.splitlines())
        ranges = ", ".join(f"{name}: {one!r}" for name, one in self.range_constraints.items())
        signature = str(self._graph_signature).replace("\n", "\n    ").rstrip()
        return (
            f"ExportedProgram:\n{body}\n\nGraph signature:{signature}\n\n"
            f"Range constraints: {{{ranges}}}\n"
        )

    __repr__ = __str__


__dir__ = _only_public(globals())
