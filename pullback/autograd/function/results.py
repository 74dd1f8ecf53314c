"""What becomes of forward's results: the history that each of them gets.

Which are inputs, views, changed in place or without gradient is told apart here.
"""

from __future__ import annotations

import warnings
from typing import Any

from pullback.autograd.function import errors as function_errors
from pullback.core import origin
from pullback.core.arrays import F32, F64
from pullback.core.mode import changed, current, get_mode
from pullback.core.node import Edge, Leaf, Output, node_and_number
from pullback.core.tensor import Tensor, new
from pullback.core.version import INFERENCE_CELL, bump
from pullback.core.view import CreationMeta, View, attach, forbidden
from pullback.operators.running.inplace import rebase_view

DIFFERENTIABLE = "fcVW"  # NumPy's kinds of dtypes that have gradients; V, W: of ml_dtypes


def among(tensor: Any, tensors: tuple[Any, ...]) -> bool:
    """Whether `tensor` is one of these objects; equality would compare elements."""
    for one in tensors:  # noqa: SIM110 (half the cost of any())
        if one is tensor:
            return True
    return False


def marked(ctx: Any, name: str, method: str) -> tuple[Any, ...]:
    """The tensors that forward gave to `method`."""
    tensors = getattr(ctx, name)
    if tensors is None:
        return ()
    if not isinstance(tensors, tuple):
        raise function_errors.staging_not_tuple(name, tensors)
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise function_errors.marks_non_tensor(method, index, tensor)
    return tensors


def recorded(ctx: Any, args: tuple[Any, ...], raw: Any, tracked: bool) -> bool:
    """Give fresh results their history, the usual case; False if any is an input or has one.

    Nothing was marked; if False, nothing was done.
    """
    if raw.__class__ is Tensor:
        if raw._node is not None:
            return False
        for arg in args:
            if arg is raw:
                return False
        if tracked:
            array = raw._array
            dtype = array.dtype
            ctx._g_shape, ctx._g_dtype = array.shape, dtype
            if dtype is F32 or dtype is F64 or dtype.kind in DIFFERENTIABLE:
                raw._node = ctx
        return True
    return raw.__class__ is tuple and len(raw) > 1 and _settled_tuple(ctx, args, raw, tracked)


def _settled_tuple(ctx: Any, args: tuple[Any, ...], raw: Any, tracked: bool) -> bool:
    sizes: list[Any] = []
    for value in raw:
        if value.__class__ is not Tensor:
            if isinstance(value, Tensor):
                return False
            sizes.append(None)
            continue
        if value._node is not None:
            return False
        for arg in args:
            if arg is value:
                return False
        sizes.append((value._array.shape, value._array.dtype))
    if not tracked:
        return True
    ctx._g_sizes = tuple(sizes)
    for number, size in enumerate(sizes):
        if size is not None and size[1].kind in DIFFERENTIABLE:
            raw[number]._node = Output(ctx, number, *size)
    return True


def recorded_write(ctx: Any, args: tuple[Any, ...], raw: Any) -> bool:
    """As `recorded`, for one tensor, no view, that was changed in place, marked and returned."""
    dirty = ctx._rare.get("dirty_tensors")
    if len(ctx._rare) != 1 or dirty.__class__ is not tuple or len(dirty) != 1:
        return False
    if dirty[0] is not raw or raw.__class__ is not Tensor or raw._node.__class__ in (Leaf, View):
        return False
    if raw._array.dtype.kind not in DIFFERENTIABLE or not among(raw, args):
        return False
    bump(raw, f"{ctx._forward_cls.__name__} (mark_dirty)")
    if raw._stored_grad is not None:
        raw._stored_grad = None
    move_retention(raw, ctx, 0)
    ctx._rare = None
    ctx._g_shape, ctx._g_dtype = raw._array.shape, raw._array.dtype
    raw._node = ctx
    return True


class Results:
    """The results of one call of forward, on their way to the caller."""

    def __init__(self, ctx: Any, args: tuple[Any, ...], raw: Any, *, recorded: bool) -> None:
        self.ctx = ctx
        self.function: str = ctx._forward_cls.__name__
        self.args = args
        self.raw = raw
        self.values: tuple[Any, ...] = tuple(raw) if isinstance(raw, tuple) else (raw,)
        self.recorded = recorded
        self.pure_view = type(ctx)._is_pure_view.of(ctx)
        self.fixed = marked(ctx, "non_differentiable", "mark_non_differentiable")
        self.dirty = marked(ctx, "dirty_tensors", "mark_dirty")
        # Saved by setup_context, where returning an input as is cannot be told from saving it.
        self.also_saved: tuple[Any, ...] = ()

    def finish(self) -> tuple[Any, ...]:
        """Count the writes, give every result its history, and return them."""
        for tensor in self.dirty:
            if tensor._cell is not INFERENCE_CELL:
                bump(tensor, f"{self.function} (mark_dirty)")
        self._check()
        self._describe()
        outputs = []
        carrying = 0
        for number, value in enumerate(self.values):
            if not isinstance(value, Tensor):
                outputs.append(value)
                continue
            carries = self.recorded and self._carries(value)
            carrying += carries
            outputs.append(self._placed(value, number, carries=carries))
        if carrying > 1:
            for output in outputs:
                if isinstance(output, Tensor) and output._node.__class__ is View:
                    output._node.change(creation=CreationMeta.MULTI_OUTPUT_NODE)
        return tuple(outputs)

    def _check(self) -> None:
        missing = [tensor for tensor in self.dirty if not among(tensor, self.values)]
        if missing:
            raise function_errors.dirty_not_returned(self.function, len(missing))
        if self.pure_view:
            tensors = sum(isinstance(arg, Tensor) for arg in self.args)
            if tensors != 1 or len(self.values) != 1:
                raise function_errors.pure_view_shape(self.function, tensors, len(self.values))

    def _carries(self, value: Tensor) -> bool:
        return value._array.dtype.kind in DIFFERENTIABLE and not among(value, self.fixed)

    def _describe(self) -> None:
        """Note shapes and dtypes of the results on the node, as gradients will have them."""
        ctx = self.ctx
        sizes = [
            (v._array.shape, v._array.dtype) if isinstance(v, Tensor) else None for v in self.values
        ]
        if len(sizes) == 1:
            if sizes[0] is not None:
                ctx._g_shape, ctx._g_dtype = sizes[0]
        else:
            ctx._g_sizes = tuple(sizes)
        rare = ctx._rare
        if rare is not None and ("_materialize_non_diff_grads" in rare or self.fixed):
            rare["without_gradient"] = frozenset(
                number
                for number, v in enumerate(self.values)
                if isinstance(v, Tensor) and not self._carries(v)
            )

    def _placed(self, value: Tensor, number: int, *, carries: bool) -> Tensor:
        is_input = among(value, self.args)
        if not carries:
            value = self._without_gradient(value, is_input=is_input)
        elif not is_input:
            self._check_dirty_result(value, number)
            set_edge(value, self._edge(number))
        elif among(value, self.dirty):
            self._rewrite(value, number)
            return value
        else:
            value = self._as_view(value)
            set_edge(value, self._edge(number))
        if value._node.__class__ is View and not (is_input and among(value, self.dirty)):
            pure = self.pure_view
            creation = CreationMeta.DEFAULT if pure else CreationMeta.IN_CUSTOM_FUNCTION
            value._node.change(creation=creation)
        return value

    def _edge(self, number: int) -> Edge:
        sizes = self.ctx._g_sizes
        return self.ctx if sizes is None else Output(self.ctx, number, *sizes[number])

    def _without_gradient(self, value: Tensor, *, is_input: bool) -> Tensor:
        if not value.requires_grad:
            if is_input and not among(value, self.dirty):
                return self._as_view(value)
        elif is_input:
            return value.detach()
        elif value._node.__class__ is not View:
            value._node = None
        # What remains is a view of something that requires grad: it is left as under no_grad.
        return value

    def _as_view(self, value: Tensor) -> Tensor:
        """An input returned as it is: a new object, so that it can have another history."""
        if among(value, self.also_saved):
            raise function_errors.returned_and_saved(self.function)
        if type(value) is Tensor:
            return viewed(value)
        before = get_mode()
        try:
            current.set(changed(before, grad=False, forward_ad=False))
            view: Tensor = value.view_as(value)
            return view
        finally:
            current.set(before)

    def _check_dirty_result(self, value: Tensor, number: int) -> None:
        if not among(value, self.dirty):
            return
        if value._node.__class__ is View:
            raise function_errors.dirty_view_not_input(self.function, number)
        warnings.warn(
            f"{self.function}: output {number} was given to mark_dirty, but it is no input. Only "
            "inputs that forward changes in place are to be marked.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )

    def _rewrite(self, value: Tensor, number: int) -> None:
        """Lead the history of an input that was changed in place through this node."""
        info = value._node
        mark = info.node if info.__class__ is View else info
        if mark.__class__ is Leaf:
            raise function_errors.dirty_leaf(self.function)
        value._stored_grad = None
        if info.__class__ is not View:
            move_retention(value, self.ctx, number)
            value._node = self._edge(number)
            return
        if len(self.values) > 1:
            raise function_errors.dirty_view_with_others(self.function, len(self.values))
        if info.manner.creation is not CreationMeta.DEFAULT:
            raise forbidden(value, info, written="is being")
        if info.base._node.__class__ is Leaf:
            raise function_errors.dirty_leaf(self.function)
        rebase_view(value, info, self.ctx, self._position(value))

    def _position(self, value: Tensor) -> int:
        """Which edge of the node led to the changed input."""
        tensors = [arg for arg in self.args if isinstance(arg, Tensor)]
        return next(index for index, arg in enumerate(tensors) if arg is value)


def set_edge(tensor: Tensor, edge: Edge) -> None:
    """Make `edge` the tensor's history, whatever it had before."""
    info = tensor._node
    if info.__class__ is not View:
        tensor._node = edge
        return
    info.node = edge
    info.version = 0 if tensor._cell is INFERENCE_CELL else tensor._cell[0]


def viewed(tensor: Tensor) -> Tensor:
    """A view of the whole tensor, without history."""
    result = new(Tensor)
    # A NumPy view, so that the memory's owner is found as for any other view.
    result._array = tensor._array[...]
    attach(result, tensor, None)
    result._node.change(forward=False)
    return result


def move_retention(tensor: Tensor, node: Any, number: int) -> None:
    """`retain_grad` follows a changed tensor to its new value; hooks stay with the old one."""
    if not tensor.retains_grad:
        return
    old, old_number = node_and_number(tensor._node)
    if old is not None and old._cold is not None and old._cold.retained:
        cold = node._warm()
        cold.retained = {**(cold.retained or {}), number: old._cold.retained.pop(old_number)}
