"""The arguments of backward() and grad(): what may be given, its checks, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from pullback.core import errors
from pullback.core.arrays import on_device_of
from pullback.core.dtype import OF_NUMBERS, from_numpy_dtype
from pullback.core.explain.why import explain
from pullback.core.graph import GradientEdge, internal_edge
from pullback.core.layout import strided
from pullback.core.memory.narrow import held
from pullback.core.mode import get_mode
from pullback.core.node import Leaf
from pullback.core.overriding import DISPATCH, FUNCTIONS
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor, blanks, wrap
from pullback.core.version import UNWRITTEN
from pullback.core.view import edge_of
from pullback.engine.layouts import check_root
from pullback.operators.create.sizes import ones_like, zeros_like
from pullback.operators.dispatch.dispatch import unrecorded_call

if TYPE_CHECKING:
    from pullback.engine.ordered import Task


class EmptyInputsError(RuntimeError, ValueError):
    """No inputs given; older programs expect a ValueError from grad()."""


_ONE = (Tensor, GradientEdge)
_SEVERAL = (tuple, list)


def listed(values: Any) -> list[Any]:
    """One tensor or edge, or an iterable of such, as a list."""
    if values.__class__ is list:
        return values[:]
    return [values] if isinstance(values, _ONE) else list(values)


def given_gradients(values: Any) -> list[Any] | None:
    """Root gradients as a list of tensors and None."""
    if values is None:
        return None
    if isinstance(values, Tensor):
        return [values]
    listed = list(values)
    for value in listed:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"gradients must be Tensors or None, got {type(value).__name__}.")
    return listed


def metadata_of(root: Any) -> tuple[Any, Any]:
    """Shape and NumPy dtype of a root."""
    if isinstance(root, Tensor):
        return root._array.shape, root._array.dtype
    entry = root.node._input_metadata[root.output_nr]
    return tuple(entry.shape), entry.dtype.numpy


def root_edge(root: Any) -> Any:
    """Where a root's gradient goes; None if nothing was recorded for it."""
    if isinstance(root, Tensor):
        return edge_of(root)
    if not isinstance(root, GradientEdge):
        raise TypeError(f"A backward pass begins at tensors, not at {type(root).__name__}.")
    return internal_edge(root)


def checked_roots(roots: Sequence[Any], gradients: list[Any] | None) -> list[tuple[Any, Any]]:
    """Edges and gradients of the roots, after every check that torch makes, in its order."""
    if gradients is None:
        gradients = [None] * len(roots)
    checked: list[tuple[Any, Any]] = []
    untracked = None
    for root, g in zip(roots, gradients, strict=False):
        edge = root_edge(root)
        if edge is None and untracked is None:
            untracked = len(checked)
        if g is None or not isinstance(root, Tensor) or not _alike(g._array, root._array):
            g = _root_gradient(len(checked), root, edge, g)
        checked.append((edge, g))
    if len(gradients) < len(roots):
        raise errors.root_gradient_count(len(roots), len(gradients))
    if untracked is not None:
        raise errors.root_without_history(untracked, why_untracked(roots[untracked]))
    return checked


def roots_of(outputs: Any, gradients: Any) -> list[tuple[Any, Any]]:
    """As `checked_roots`, from the user's arguments; at once for the one root that most have."""
    if outputs.__class__ is Tensor and gradients.__class__ is Tensor:
        edge, array, g = outputs._node, outputs._array, gradients._array
        if edge is not None and edge._special:
            edge = edge()  # of a view or leaf, where nothing needs to be made
        if (
            edge is not None
            and g.shape == array.shape
            and g.dtype is array.dtype
            and numpy.ndarray is g.__class__ is array.__class__
        ):
            return [(edge, gradients)]
    return checked_roots(listed(outputs), given_gradients(gradients))


def why_untracked(root: Any) -> str:
    """Why nothing was recorded for a root."""
    return explain(root) if isinstance(root, Tensor) else ""


def _alike(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype is b.dtype and numpy.ndarray is a.__class__ is b.__class__


def _root_gradient(index: int, root: Any, edge: Any, g: Any) -> Any:
    shape, dtype = metadata_of(root)
    if g is None:
        return None if edge is None else _implicit_gradient(root, shape, dtype)
    array = g._array
    if array.shape != shape:
        raise errors.root_gradient_shape(index, array.shape, shape)
    if (array.dtype.kind in "cW") != (dtype.kind in "cW"):
        raise errors.root_gradient_dtype(index, g.dtype, from_numpy_dtype(dtype))
    if g._layout is not None:
        check_root(index, g, (root._layout or strided) if isinstance(root, Tensor) else None)
    if isinstance(root, Tensor) and type(array) is not type(root._array):
        g = _on_its_device(index, root, g)
    return g if g._array.dtype == dtype else g.to(from_numpy_dtype(dtype))


def _implicit_gradient(root: Any, shape: tuple[int, ...], dtype: Any) -> Tensor:
    for size in shape:
        if size != 1:
            raise errors.implicit_gradient(shape)
    if dtype.kind in "cW":
        raise errors.implicit_gradient_dtype(from_numpy_dtype(dtype))
    if isinstance(root, Tensor) and (root._overrides & DISPATCH or get_mode().dispatch):
        ones: Tensor = unrecorded_call(lambda: ones_like(root))
        return ones
    if isinstance(root, Tensor) and type(root._array) is not numpy.ndarray:
        with on_device_of(root._array):
            return wrap(numpy.ones_like(root._array))
    return root_gradient(shape, dtype)


def root_gradient(shape: tuple[int, ...], dtype: Any) -> Tensor:
    """What a root of one element starts from."""
    one = held(numpy.empty(shape, dtype)) if dtype.char == OF_NUMBERS else numpy.empty(shape, dtype)
    one.fill(1)  # numpy.ones is three times as slow
    made = next(blanks)  # `wrap` in line
    made._array = one
    made._node = None
    made._cell = UNWRITTEN
    return made


def constant_gradient(like: numpy.ndarray[Any, Any], value: int) -> Tensor:
    """A gradient that is the same everywhere, for an array."""
    made = numpy.empty(like.shape, like.dtype)
    if made.dtype.kind == "O":
        made = held(made)
    made.fill(value)
    return wrap(made)


def zeros_for(tensor: Tensor) -> Tensor:
    """A gradient of zeros, of the tensor's class where that answers operators."""
    if tensor._overrides & DISPATCH:
        zeros: Tensor = unrecorded_call(lambda: zeros_like(tensor))
        return zeros
    return wrap(numpy.zeros_like(tensor._array))


def _on_its_device(index: int, root: Tensor, g: Tensor) -> Any:
    """A gradient moved to where its root is, if it is a single number."""
    if g.device == root.device:
        return g
    if g._array.shape:
        raise errors.gradient_device(f"tensors[{index}]", g.device, root.device)
    return g.to(root.device)


def input_edges(asked: Sequence[Any]) -> list[Any]:
    """Where the gradients of what is asked for go."""
    edges: list[Any] = []
    for one in asked:
        # The mark of a leaf that some graph holds; everything else takes a closer look.
        plain = one.__class__ is Tensor or isinstance(one, Tensor)
        leaf = plain and one._node.__class__ is Leaf and one._node()
        edges.append(leaf or _input_edge(one, len(edges)))
    return edges


def _input_edge(one: Any, index: int) -> Any:
    if isinstance(one, GradientEdge):
        return internal_edge(one)
    if not isinstance(one, Tensor):
        raise RuntimeError(
            f"inputs[{index}] must be a Tensor or GradientEdge, got {type(one).__name__}."
        )
    if not one.requires_grad:
        raise RuntimeError(
            f"inputs[{index}] does not require grad: nothing was recorded for it. Set "
            "requires_grad=True before computing with it."
        )
    return edge_of(one)


def retaining_edge(one: Any) -> Any:
    """The same for backward(inputs=...), which lets a non-leaf keep its gradient."""
    if isinstance(one, Tensor):
        one.retain_grad()
    return _input_edge(one, 0)


def foreign(values: Any) -> bool:
    """Whether there is an object with a `__torch_function__`, alone or in a list.

    Those are offered the call: tensors of a class of their own, and things that act as tensors.
    """
    if isinstance(values, Tensor):
        return bool(values._overrides & FUNCTIONS)
    if not isinstance(values, _SEVERAL):
        return hasattr(type(values), "__torch_function__")
    for one in values:  # noqa: SIM110 (a generator costs every pass half a microsecond)
        if type(one) is not Tensor and foreign(one):
            return True
    return False


def described_pass(tensors: Any, inputs: Any, *, accumulates: bool) -> Task:
    """A pass that is looked at but never run, from the arguments of backward() or grad()."""
    from pullback.engine.ordered import Task  # few passes need it

    roots = listed(tensors)
    edges = [root_edge(root) for root in roots]
    for index, edge in enumerate(edges):
        if edge is None:
            raise errors.root_without_history(index, why_untracked(roots[index]))
    wanted = None
    if inputs is not None:
        wanted = input_edges(listed(inputs))
        if not wanted:
            raise EmptyInputsError("inputs= is empty; leave it away, or name a tensor.")
    return Task(
        [(edge, None) for edge in edges],
        keep_graph=True,
        create_graph=False,
        tensors=False,
        accumulates=accumulates,
        wanted=wanted,
        freed=Freed(None),
    )
