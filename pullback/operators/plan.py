"""What the nodes of an operator keep: it follows from what its rules ask for."""

from __future__ import annotations

from functools import cache
from typing import Any

from pullback.core.writer import theirs
from pullback.operators.declare import Op, parameters_of

__all__ = ["Plan", "plan_of", "several_outputs"]


@cache  # every part that is written asks for it
def plan_of(op: Op) -> Plan:
    """What the nodes of an operator keep."""
    return Plan(op)


class Plan:
    """What the nodes of an operator keep, derived from the parameter names of its rules."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.edges = op.differentiable
        asked = {param.name: parameters_of(op.rules[param.name]) for param in self.edges}
        self.asked = asked
        by_name = {param.name: param for param in op.params}
        # An adjoint may call its own input `g` too; in a rule the name always means the gradient.
        self.gradients = {*op.gradient_names, "g"}
        asked_for = [n for names in asked.values() for n in names if n not in self.gradients]
        wanted = list(dict.fromkeys(asked_for))
        self.inputs = [by_name[n] for n in wanted if n in by_name and by_name[n].is_tensor]
        self.options = [n for n in wanted if n in by_name and not by_name[n].is_tensor]
        self.outputs = [n for n in wanted if n in op.outputs]
        taken = {*by_name, *op.outputs}
        self.derived = [n for n in wanted if n not in taken]  # input_shape and the like

    def users(self, name: str) -> list[int]:
        """Numbers of the edges whose rule asks for `name`."""
        return [i for i, param in enumerate(self.edges) if name in self.asked[param.name]]

    def given(self, rule: Any, *ours: str) -> str:
        """What a rule asks for, as its arguments in the node's code, which has `ours` too."""
        known = {*self.gradients, *ours}
        return ", ".join(name if name in known else theirs(name) for name in parameters_of(rule))

    @property
    def kept(self) -> list[str]:
        """Names of what a node keeps, as rules ask for it."""
        return [*(one.name for one in self.inputs), *self.outputs, *self.options, *self.derived]

    @property
    def slots(self) -> list[str]:
        """Names of the slots."""
        slots = [f"s_{param.name}{end}" for param in self.inputs for end in ("", "_v")]
        slots += [f"s_{name}{end}" for name in self.outputs for end in ("", "_v", "_c")]
        return slots + [f"s_{name}" for name in (*self.options, *self.derived)]


def several_outputs(op: Op) -> bool:
    """Whether more than one output carries a gradient."""
    return op.outputs == ("*",) or len(op.outputs) - len(op.fixed_outputs) > 1
