"""Views: which memory a tensor shares, and how its history follows writes to that memory.

A view keeps its root base, never the views in between. Its node is valid for one version of the
memory; once anything wrote there, the node is made anew, from the base's present history, when next
asked for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Optional, TypeAlias

from pullback.core import errors
from pullback.core.node import AccumulateGrad, Edge, Leaf, Output, node_and_number
from pullback.core.ports import ports
from pullback.core.version import INFERENCE_CELL, Cell

if TYPE_CHECKING:
    from pullback.core.tensor import Tensor


class CreationMeta(enum.Enum):
    """How a view was made; all but DEFAULT forbid recorded in-place writes later."""

    manner: Manner  # of a view of which there is no more to say

    DEFAULT = 0
    IN_CUSTOM_FUNCTION = 1
    MULTI_OUTPUT_NODE = 2
    NO_GRAD_MODE = 3
    INFERENCE_MODE = 4
    DIFFERENTIATED = 5
    OWN_LEVEL = 6


DEFAULT = CreationMeta.DEFAULT

Steps: TypeAlias = Optional["tuple[Callable[[Tensor], Tensor], ...]"]


class Manner:
    """What is told of a view besides base and history; never changed, as views share it."""

    __slots__ = ("creation", "forward", "replay")

    def __init__(self, creation: CreationMeta, forward: bool = True, replay: Steps = None) -> None:
        self.creation = creation
        # Whether tangents follow this relation too; not for duals made by hand.
        self.forward = forward
        # Steps from the base to this view; None where shape, strides and offset say it all.
        self.replay = replay


for _creation in CreationMeta:
    _creation.manner = Manner(_creation)
USUAL = DEFAULT.manner


class _Nowhere:
    """An edge for what requires grad but leads to no one, as a view made under no_grad."""

    _special: ClassVar[bool] = False
    _enters: ClassVar[bool] = False
    _seq: ClassVar[int] = 2
    node: ClassVar[None] = None
    nr: ClassVar[int] = 0
    _edges: ClassVar[tuple[()]] = ()


NOWHERE: Any = _Nowhere()


class View:
    """Stands in the `_node` slot of a view."""

    __slots__ = ("base", "cell", "manner", "node", "version")

    _special: ClassVar[bool] = True
    edge: ClassVar[Callable[[Tensor], Edge | None]]

    base: Tensor
    node: Edge | Leaf | None
    # The counter of the memory, and the version that `node` belongs to.
    cell: Cell
    version: int
    manner: Manner

    def __call__(self) -> Edge | None:
        """The node if it is still right, as a leaf's mark answers; None: see `edge_of`."""
        node = self.node
        return node if self.version == self.cell[0] and node.__class__ is not Leaf else None  # type: ignore[return-value]  # no Leaf among them

    def change(
        self,
        *,
        creation: CreationMeta | None = None,
        forward: bool | None = None,
        replay: Steps = None,
    ) -> None:
        """Tell something else of this view; None: as before."""
        before = self.manner
        self.manner = Manner(
            before.creation if creation is None else creation,
            before.forward if forward is None else forward,
            before.replay if replay is None else replay,
        )


def attach(
    result: Tensor,
    source: Tensor,
    node: Edge | None,
    replay: Callable[[Tensor], Tensor] | None = None,
    creation: CreationMeta = DEFAULT,
) -> None:
    """Make `result`, whose array shares the memory of `source`, a view with history `node`."""
    cell = source._cell
    if cell is INFERENCE_CELL:
        result._node, result._cell = None, INFERENCE_CELL
        return
    if cell.__class__ is tuple:  # `own_cell` in line
        cell = source._cell = [*cell]
    info = View()
    above = source._node
    steps = None
    if above.__class__ is View:
        info.base = above.base
        if creation is DEFAULT or above.manner.creation is CreationMeta.INFERENCE_MODE:
            creation = above.manner.creation
        if replay is not None or above.manner.replay is not None:
            steps = (*_steps(source, above), *_steps_of(result, source, replay))
    else:
        info.base = source
        if replay is not None:
            steps = (replay,)
    info.manner = creation.manner if steps is None else Manner(creation, replay=steps)
    info.node = node
    info.cell = result._cell = cell
    info.version = cell[0]
    result._node = info


def _steps(source: Tensor, above: View) -> tuple[Callable[[Tensor], Tensor], ...]:
    known = above.manner.replay
    return known if known is not None else _steps_of(source, above.base, None)


def _steps_of(
    view: Tensor, source: Tensor, replay: Callable[[Tensor], Tensor] | None
) -> tuple[Any, ...]:
    return (replay,) if replay is not None else (ports.restride(view, source),)


def edge_of(tensor: Tensor) -> Edge | None:
    """Where the gradient of `tensor` goes: its node, its accumulator, or None."""
    kind = tensor._node
    if kind is None or not kind._special:
        edge: Edge | None = kind
        return edge
    if kind.__class__ is Leaf:
        return AccumulateGrad.of(tensor)
    if kind.version != tensor._cell[0]:
        refresh(tensor, kind)
    edge = kind.node
    if edge is None:  # as of parts of data: asked by every operator that they go into
        base = kind.base
        return NOWHERE if base._node is not None and base.requires_grad else None
    return AccumulateGrad.of(tensor) if edge.__class__ is Leaf else edge


View.edge = staticmethod(edge_of)


def refresh(tensor: Tensor, info: View) -> None:
    """Bring a view's node up to date with its memory."""
    version = tensor._cell[0]
    if info.version == version:
        return
    # A view may outlive the history of its base, which `detach_()` takes away.
    if not info.base.requires_grad and (info.node is None or info.node.__class__ is Leaf):
        return
    if info.manner.creation is not DEFAULT:
        raise forbidden(tensor, info, written="its base or another view of it was")
    renewed = ports.regenerate(tensor, info)
    if renewed is not None:
        move_retention(tensor, info.node, renewed)
    info.node = renewed
    info.version = version


def move_retention(tensor: Tensor, old: Any, new: Edge) -> None:
    """`retain_grad` follows a tensor to its new value; hooks stay with the old one."""
    kept = _retained(old)
    if kept is None:
        return
    number = node_and_number(old)[1]
    if number not in kept or kept[number]() is not tensor:
        return
    node, new_number = node_and_number(new)
    assert node is not None
    cold = node._warm()
    cold.retained = {**(cold.retained or {}), new_number: kept.pop(number)}


def retains(tensor: Tensor, edge: Any) -> bool:
    """Whether `tensor` asked that the gradient arriving at `edge` be kept."""
    kept = _retained(edge)
    reference = kept.get(node_and_number(edge)[1]) if kept else None
    return reference is not None and reference() is tensor


def _retained(edge: Any) -> dict[int, Any] | None:
    """Who asked that the gradients arriving at a node be kept."""
    if edge is None or edge.__class__ is Leaf:
        return None
    node = edge.node if edge.__class__ is Output else edge
    cold = node._cold
    return None if cold is None else cold.retained


_REASONS = {
    CreationMeta.MULTI_OUTPUT_NODE: "a function that returns several views, and such views cannot "
    "be rebuilt one by one. Use the out-of-place form of the write",
    CreationMeta.IN_CUSTOM_FUNCTION: "a custom Function (or returned as is by one), whose "
    "backward would be lost. Clone the Function's output before the write",
    CreationMeta.NO_GRAD_MODE: "code under no_grad, and the write happened with grad mode on. "
    "Put both inside no_grad, or both outside",
    CreationMeta.DIFFERENTIATED: "a function transform, which differentiates with respect to it. "
    "Clone the argument before the write",
    CreationMeta.OWN_LEVEL: ".data inside nested function transforms, of which the outer ones "
    "would have to see the write. Write to the tensor itself, or to a clone",
    CreationMeta.INFERENCE_MODE: "code under inference_mode, and the write happened in normal "
    "mode. Put both inside inference_mode, or both outside",
}


def forbidden(tensor: Tensor, info: View, written: str) -> RuntimeError:
    """The error for a recorded write to (or through) a view whose history cannot be rebuilt."""
    node, nr = node_and_number(None if isinstance(info.node, Leaf) else info.node)
    made_by = f"Output {nr} of {type(node).name(node)}" if node is not None else "This tensor"
    return errors.view_forbids_write(
        f"{made_by} is a view and {written} modified in place. The view was made by "
        f"{_REASONS[info.manner.creation]}."
    )
