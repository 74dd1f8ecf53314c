"""What a capture gives: the steps, where their inputs come from, what is done with results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pullback.compiled.capture.steps import Call, Value
from pullback.compiled.capture.surroundings import Surroundings
from pullback.core.mode import Mode
from pullback.core.origin import Origin
from pullback.core.trees.pytree import TreeSpec

__all__ = ["Captured", "Input", "Output"]


@dataclass(frozen=True)
class Input:
    """Where an array of the program comes from in a call."""

    # "argument", "held" (a tensor), "grad" (of another input's tensor), "constant", "found" (a
    # tensor that each call fetches), "number" (one that each call computes)
    kind: str
    value: Value
    place: Any  # the leaf's number; the tensor; the other input's number; the array
    requires_grad: bool = False
    is_parameter: bool = False


@dataclass(frozen=True)
class Output:
    """What stands at a leaf of the result."""

    # "value", "input" (the tensor itself), "view" (of an input), "object", "number" (computed by
    # each call), "kept" (an object that each call fetches)
    kind: str
    value: Any = None
    place: Any = None  # the input's number, or the object
    requires_grad: bool = False
    steps: Any = None  # of a view: the view operators that lead from the input to it
    is_leaf: bool = False  # it requires a gradient because the function said so

    @property
    def has_history(self) -> bool:
        """Whether gradients go back from it."""
        return self.requires_grad and not self.is_leaf


@dataclass
class Captured:
    """A captured call: the steps, where their inputs come from, and what is done with results."""

    calls: list[Call]
    forward: int  # so many of the calls are the forward
    inputs: list[Input]
    outputs: list[Output]
    tree: TreeSpec
    arguments: TreeSpec
    mode: Mode
    world: Surroundings
    writes: list[tuple[int, Value]] = field(default_factory=list)  # input's number, new value
    stores: list[tuple[int, Value | None]] = field(default_factory=list)  # .grad of that input
    # Which of them, by place in the list, are results as well: by their number.
    stored_results: dict[int, int] = field(default_factory=dict)
    # Of the backward: gradients that arrive, by output; those that leave, by input.
    tangents: list[tuple[int, Value]] = field(default_factory=list)
    gradients: list[tuple[int, Value]] = field(default_factory=list)
    is_spent: bool = False  # the results' history was used up by the function itself
    default_dtype: Any = None
    default_device: Any = None
    origin: Origin | None = None
    library: Any = None  # of the device that its tensors are on; None: NumPy's
    checks: list[tuple[int, Value, Any]] = field(default_factory=list)  # see decisions.py
    whole: list[Call] | None = None  # all calls, where some are done before (decisions.py)
    effects: Any = None  # writes to Python objects, done after the program (effects.py)
    reached: Any = None  # what each call fetches for them, for "found" inputs and for numbers
    numbers: Any = None  # what each call computes of numbers (interpreter/late.py)
    loose: dict[int, Any] = field(default_factory=dict)  # leaves that no guard compares
    home: Any = None  # the mode that the function was called in, of which this may be a part
    found: list[Any] = field(default_factory=list)  # facts of the tensors that each call fetches
    asked: Any = None  # what backward passes must find as it was (later.py)
    rewritten: frozenset[Any] = frozenset()  # places of tensors and numbers that it writes anew
