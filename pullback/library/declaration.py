"""A user's operator in the form that built-in ones have: a declaration.

Whoever works on declarations (levels of transforms, observers, capture) takes both alike. What a
declaration says of derivatives and batches is empty: these come from what was registered.
"""

from __future__ import annotations

from typing import Any

from pullback.library.registry import Operator
from pullback.library.schema import Argument
from pullback.library.schema.types import ListType, OptionalType
from pullback.operators.declare import REQUIRED, Op, Param


class UserOp(Op):
    """The declaration of a user's operator; `function` is the overload that runs it."""

    def __init__(self, operator: Operator) -> None:  # not Op's: there is no forward over arrays
        schema = operator.schema
        self.operator = operator
        self.kind = "primitive"
        self.name = operator.qualname
        self.space = schema.namespace
        self.rules = {}
        self.params = tuple(_param(argument) for argument in schema.arguments)
        several = len(schema.returns) != 1
        self.outputs = tuple(f"out{i}" for i in range(len(schema.returns))) if several else ("out",)
        self.fixed_outputs = frozenset()
        self.promote = self.jvp = self.batch = None
        self.shifts = self.numbers = self.has_out = self.method = self.inplace = False
        self.strided = True
        self.aten, self.aten_defaults, self.meta = None, {}, ""
        self.apart = False
        title = "_".join([*schema.name.split("::"), schema.overload_name or "default"])
        self.node_name = f"GeneratedBackwardFor_{title}Backward"
        self.inputs = tuple(param for param in self.params if param.is_tensor)
        self.differentiable = ()
        self.positional = tuple(param.name for param in self.params if not param.keyword_only)
        self.keywords = frozenset(param.name for param in self.params if param.keyword_only)
        self.gradient_names = ()
        self.spellings = self.operand_names = {}

    @property
    def function(self) -> Any:
        """What runs it."""
        return self.operator.overload

    @function.setter
    def function(self, value: Any) -> None:
        raise AttributeError(f"{self.name} runs by its overload.")

    @property
    def forward(self) -> Any:
        """The kernel for the CPU, or the first that there is."""
        kernels = self.operator.kernels
        found = kernels.get("CPU") or next(iter(kernels.values()), None)
        return None if found is None else found.function

    @forward.setter
    def forward(self, value: Any) -> None:
        raise AttributeError(f"{self.name} has kernels; register another one.")


def _param(argument: Argument) -> Param:
    kind = "option"
    if argument.type.is_tensor_like:
        kind = "tensor"
        if isinstance(argument.type, OptionalType):
            kind = "optional"
        elif isinstance(argument.type, ListType):
            kind = "tensors"
    default = argument.default if argument.has_default_value() else REQUIRED
    return Param(argument.name, kind, default, argument.kwarg_only)
