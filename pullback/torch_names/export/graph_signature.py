"""What the inputs and outputs of an exported graph are: parameters, buffers, the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

from pullback.core.listing import only_public as _only_public

__all__ = [
    "ConstantArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymIntArgument",
    "TensorArgument",
]


@dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass
class SymIntArgument:
    """A number that the graph computes from sizes, by the name of its node."""

    name: str


@dataclass
class ConstantArgument:
    """A number, text or None that is the same in every call.

    Args:
        value: The value.
    """

    name: str
    value: Any


Argument = TensorArgument | SymIntArgument | ConstantArgument


class InputKind(Enum):
    """What an input of the graph is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What an output of the graph is."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclass
class InputSpec:
    """One input of the graph; `target` is the name that it has in the module.

    Args:
        kind: What the input is: a parameter, a buffer, a constant or an argument of the caller.
        arg: Name of the node, or a constant.
        target: Path in the module; None for an argument of the caller.
        persistent: Whether the state dict has the buffer; None for others.
    """

    kind: InputKind
    arg: Argument
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        return _shown(self.arg, self.kind, self.target, self.persistent)


@dataclass
class OutputSpec:
    """One output of the graph; `target` is what in the module takes it.

    Args:
        kind: What the output is: a result for the caller or the new value of a buffer or an input.
        arg: Name of the node, or a constant.
        target: Path of the buffer, or name of the input; None for a result.
    """

    kind: OutputKind
    arg: Argument
    target: str | None

    def __str__(self) -> str:
        return _shown(self.arg, self.kind, self.target, None)


def _shown(arg: Argument, kind: Enum, target: str | None, persistent: bool | None) -> str:
    more = "" if target is None else f" target={target!r}"
    more += "" if persistent is None else f" persistent={persistent}"
    return f"{arg.name}: {kind.name}{more}"


@dataclass
class ExportBackwardSignature:
    """Which outputs are gradients, and which is the loss."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass
class ExportGraphSignature:
    """Inputs and outputs of an exported graph, in its order.

    >>> import pullback as torch
    >>> program = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> signature = program.graph_signature
    >>> signature.parameters, signature.user_inputs
    (('weight', 'bias'), ('input',))
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(one.target or "" for one in self.input_specs if one.kind is kind)

    def _by_name(self, kind: InputKind) -> Mapping[str, str]:
        pairs = {s.arg.name: s.target or "" for s in self.input_specs if s.kind is kind}
        return MappingProxyType(pairs)

    def _written(self, kind: OutputKind) -> Mapping[str, str]:
        pairs = {s.arg.name: s.target or "" for s in self.output_specs if s.kind is kind}
        return MappingProxyType(pairs)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, as the module has them."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Names of the buffers that the state dict leaves out."""
        found = [one for one in self.input_specs if one.kind is InputKind.BUFFER]
        return tuple(one.target or "" for one in found if one.persistent is False)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of tensors that are neither parameters nor buffers."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Names of the inputs that a caller gives; of constants the value."""
        found = (one.arg for one in self.input_specs if one.kind is InputKind.USER_INPUT)
        return tuple(_name_or_value(one) for one in found)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Names of the outputs that a caller gets; of constants the value."""
        found = (one.arg for one in self.output_specs if one.kind is OutputKind.USER_OUTPUT)
        return tuple(_name_or_value(one) for one in found)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Name in the graph -> name in the module."""
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Name in the graph -> name in the module."""
        return self._by_name(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Name in the graph -> name in the module."""
        return self._by_name(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Output -> the buffer that takes it."""
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Output -> the parameter that takes it."""
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Output -> the caller's input that takes it."""
        return self._written(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """None: exported graphs are the forward."""
        return None

    def replace_all_uses(self, old: str, new: str) -> None:
        """Let what went by one name go by another."""
        for arg in [one.arg for one in self.input_specs] + [one.arg for one in self.output_specs]:
            if arg.name == old:
                arg.name = new

    def __str__(self) -> str:
        lines = ["", "# inputs", *map(str, self.input_specs), ""]
        return "\n".join([*lines, "# outputs", *map(str, self.output_specs), ""])


def _name_or_value(arg: Argument) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name


__dir__ = _only_public(globals())
