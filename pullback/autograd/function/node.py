"""The node of a custom Function, which is also the `ctx` of its methods: runs the user's backward.

One class is made for each Function class. Whatever is ours begins with an underscore or has the
name that torch gives it; all other attributes are the user's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy

from pullback.autograd.function import errors as function_errors
from pullback.autograd.function import saved as function_saved
from pullback.autograd.function.ctx import FunctionCtx
from pullback.autograd.function.legacy import saved_variables
from pullback.core import origin, passes
from pullback.core.arrays import as_array
from pullback.core.dtype import get_default_dtype
from pullback.core.mode import current, get_mode
from pullback.core.node import InputMetadata, OperatorNode
from pullback.core.ports import ports
from pullback.core.saved import Freed
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.version import UNWRITTEN
from pullback.engine.fitting import fitted, fitted_all, fitted_tensor
from pullback.engine.layouts import check_layouts

ndarray = numpy.ndarray

next_function_id = itertools.count().__next__  # atomic, as next() of a C iterator is


class _Staged:
    """A ctx attribute that forward may set; read and cleared when forward is done."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, ctx: BackwardCFunction | None, owner: type | None = None) -> Any:
        if ctx is None:
            return self
        return None if ctx._rare is None else ctx._rare.get(self.name)

    def __set__(self, ctx: BackwardCFunction, value: Any) -> None:
        ctx._set_rare(self.name, value)


class _Switch:
    """A bool on ctx that can be set, but (unless `readable`) not read, as in torch."""

    def __init__(self, default: bool, *, readable: bool = False) -> None:
        self.default = default
        self.readable = readable

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, ctx: BackwardCFunction | None, owner: type | None = None) -> Any:
        if ctx is None:
            return self
        if not self.readable:
            raise AttributeError(f"{self.name} of {type(ctx).__name__} can be set, but not read.")
        return self.of(ctx)

    def __set__(self, ctx: BackwardCFunction, value: Any) -> None:
        if not isinstance(value, bool):
            raise function_errors.not_a_bool(f"ctx.{self.name}", value)
        ctx._set_rare(self.name, value)

    def of(self, ctx: BackwardCFunction) -> bool:
        """What is set, or the default."""
        return self.default if ctx._rare is None else ctx._rare.get(self.name, self.default)


class BackwardCFunction(OperatorNode, FunctionCtx):
    """Base of the nodes of all custom Functions; `Cls._backward_cls` derives from it.

    >>> import pullback as torch
    >>> from pullback.autograd.function import BackwardCFunction
    >>> class Twice(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    >>> issubclass(Twice._backward_cls, BackwardCFunction)
    True
    """

    __slots__ = (
        "_g_sizes",
        "_is_tensor",
        "_materializes",
        "_rare",
        "_saved",
        "_versions",
        "needs_input_grad",
        "to_save",
    )

    _by_user = True
    _forward_cls: ClassVar[Any]
    _autograd_function_id: ClassVar[int]

    needs_input_grad: Any
    # Shape and dtype of each result, None for those that are no tensors; None if there is one
    # result.
    _g_sizes: Any
    # For each argument, whether it is a tensor; None if all are.
    _is_tensor: tuple[bool, ...] | None
    _rare: dict[str, Any] | None
    # Whether a missing gradient or tangent is passed as zeros, else as None.
    _materializes: bool
    # A tuple of tensors with their versions, or as function_saved says.
    _saved: Any
    _versions: Any

    dirty_tensors = _Staged()
    non_differentiable = _Staged()
    _materialize_non_diff_grads = _Switch(default=True, readable=True)
    _is_pure_view = _Switch(default=False)

    @property
    def materialize_grads(self) -> Any:
        """Can be set, but not read, as in torch."""
        raise AttributeError(
            f"materialize_grads of {type(self).__name__} can be set, but not read."
        )

    @materialize_grads.setter
    def materialize_grads(self, value: Any) -> None:
        if not isinstance(value, bool):
            raise function_errors.not_a_bool("ctx.materialize_grads", value)
        self._materializes = value

    def _set_rare(self, name: str, value: Any) -> None:
        if self._rare is None:
            self._rare = {}
        self._rare[name] = value

    # ------------------------------------------------------------------ saved values

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What forward gave to save_for_backward; in jvp, what it gave to save_for_forward."""
        saved = self._saved
        if saved.__class__ is not tuple:
            return function_saved.read(self)
        for index, version in enumerate(self._versions):
            tensor = saved[index]
            if tensor._cell[0] != version:
                raise function_saved.changed_since(self, index, tensor, tensor._cell, version)
        return saved

    saved_variables = saved_variables

    @property
    def _raw_saved_tensors(self) -> tuple[function_saved.SavedTensor, ...]:
        return function_saved.raw(self)

    @property
    def saved_for_forward(self) -> Any:
        """What save_for_forward was given; gone once apply is done."""
        return None if self._rare is None else self._rare.get("saved_for_forward")

    @saved_for_forward.setter
    def saved_for_forward(self, value: Any) -> None:
        self._set_rare("saved_for_forward", value)
        if isinstance(value, tuple):
            self._saved = value

    def maybe_clear_saved_tensors(self) -> None:
        """Release the saved tensors now, inside backward, unless the graph is retained."""
        running = passes.running.get()
        if running is not None and not running.keep_graph:
            self._release(Freed(origin.user_frame(origin.getframe(1))))

    def _release(self, freed: Any) -> None:
        self._saved = freed
        self._versions = ()

    # ------------------------------------------------------------------ running backward

    def apply(self, *grads: Any) -> Any:
        """Call the user's backward as it is: nothing filled in, no hooks, nothing checked."""
        return self._call(grads)

    def _call(self, grads: Any) -> Any:
        cls = self._forward_cls
        backward, vjp = cls.backward, cls.vjp
        if vjp is not missing_backward:
            if backward is not missing_backward:
                raise function_errors.backward_and_vjp(cls.__name__)
            backward = vjp
        if cls.boxed_grads_call:
            return backward(self, list(grads))
        return backward(self, *grads)

    def _run(self, g: Any, edges: tuple[Any, ...]) -> Any:
        mode = get_mode()
        cls = self._forward_cls
        usual = self._g_sizes is None and g is not None and cls.vjp is missing_backward
        if not usual or cls.boxed_grads_call or mode.inference:
            returned = self._call(self._arguments(g))
        else:
            tensor = new(Tensor)
            if type(g) is not ndarray:
                g = as_array(g)
                tensor = wrap(g)
            tensor._array = g
            tensor._node = None
            tensor._cell = UNWRITTEN
            returned = cls.backward(self, tensor)
        if get_mode() is not mode:
            current.set(mode)  # whatever backward did to grad mode ends here
        values = returned if returned.__class__ is tuple else (returned,)
        if self._is_tensor is not None or len(values) != len(edges):
            values = self._per_edge(returned)
        results = []
        for value in values:
            if value.__class__ is Tensor:
                results.append(value._array)
            elif value is None:
                results.append(None)
            else:
                return [None if r is None else r._array for r in self._per_edge(returned)]
        return results

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> Any:
        mode = get_mode()
        returned = self._call(self._arguments(g))
        if get_mode() is not mode:
            current.set(mode)
        return self._per_edge(returned)

    def _run_written(self, g: Any, position: int) -> list[Any]:
        """As `_run`, from inside CopySlices; fitted here, so that errors name this node.

        The gradient at `position` is the written view's, and must fit the slice.
        """
        recorded = isinstance(g, Tensor)
        results = (self._run_tensors if recorded else self._run)(g, self._edges)
        fit = fitted_tensor if recorded else fitted
        targets = [*self._edges[:position], self, *self._edges[position + 1 :]]
        return list(fitted_all(results, targets, self, fit))

    def _arguments(self, g: Any) -> list[Any]:
        """One tensor for each result of forward; zeros where no gradient arrived, if so asked."""
        given = (g,) if self._g_sizes is None else g
        filled = []
        for number, value in enumerate(given):
            if value is None:
                filled.append(self._missing(number, given))
            elif isinstance(value, Tensor):
                filled.append(value)
            else:
                filled.append(wrap(as_array(value)))
        return filled

    def _missing(self, number: int, given: Any) -> Tensor | None:
        size = (self._g_shape, self._g_dtype) if self._g_sizes is None else self._g_sizes[number]
        cls = type(self)
        if size is None or not self._materializes:
            return None
        if not cls._materialize_non_diff_grads.of(self) and number in self._without_gradient:
            return None
        if not all(isinstance(length, int) for length in size[0]):
            return _nested_zeros(size[0], size[1], given)
        return self._zeros(*size)

    @staticmethod
    def _zeros(shape: tuple[int, ...], dtype: Any) -> Tensor:
        return wrap(numpy.zeros(shape, dtype))

    @property
    def _without_gradient(self) -> frozenset[int]:
        """Numbers of the results that carry no gradient."""
        return (
            frozenset() if self._rare is None else self._rare.get("without_gradient", frozenset())
        )

    def _per_edge(self, returned: Any) -> Any:
        """The gradients for the tensor arguments, from what backward returned for all of them."""
        values = returned if isinstance(returned, tuple) else (returned,)
        kinds = (True,) * len(self._edges) if self._is_tensor is None else self._is_tensor
        name, expected = type(self).name(self), len(kinds)
        if len(values) > expected and all(value is None for value in values[expected:]):
            values = values[:expected]
        if len(values) != expected:
            raise function_errors.gradient_count(name, expected, returned)
        gradients = of_tensors(name, values, kinds, range(1, expected + 1))
        if any(value is not None and value._layout is not None for value in gradients):
            check_layouts(name, gradients, self._edges)
        return gradients

    # ------------------------------------------------------------------ as a node

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        if self._g_sizes is None:
            known = hasattr(self, "_g_shape")
            return super()._input_metadata if known else ()
        nothing = ((), get_default_dtype().numpy)
        return tuple(
            InputMetadata(shape, *ports.describe_metadata(dtype, self))
            for shape, dtype in (size or nothing for size in self._g_sizes)
        )

    # `ctx.origin = ...` belongs to the user; `_origin` is the line that called apply.
    @property
    def origin(self) -> Any:
        """The line of the user's program that called `apply`."""
        return self.__dict__.get("origin", self._origin)

    @origin.setter
    def origin(self, value: Any) -> None:
        self.__dict__["origin"] = value

    def __repr__(self) -> str:
        kind = type(self)
        return f"<{kind.__module__}.{kind.__name__} object at {id(self):#x}>"

    # ------------------------------------------------------------------ captured backward

    def _get_compiled_autograd_symints(self) -> tuple[int, ...]:
        return tuple(self._forward_cls._compiled_autograd_key(self)[1:])

    @property
    def _compiled_autograd_backward_state(self) -> Any:
        return None if self._rare is None else self._rare.get("backward_state")

    @_compiled_autograd_backward_state.setter
    def _compiled_autograd_backward_state(self, value: Any) -> None:
        if self._compiled_autograd_backward_state is not None:
            raise RuntimeError("_compiled_autograd_backward_state is set already; it is set once.")
        self._set_rare("backward_state", value)


def missing_backward(ctx: Any, *grad_outputs: Any) -> Any:
    """Gradients for the arguments of forward, from those of its results; also called `vjp`.

    Called with ctx and one gradient for each result; returns one value for each argument of
    forward, None for those that are no tensors or have no gradient.
    """
    raise function_errors.no_backward(type(ctx)._forward_cls.__name__)


def of_tensors(
    name: str, values: Sequence[Any], kinds: Sequence[bool], positions: Sequence[int]
) -> list[Tensor | None]:
    """The gradients of those arguments that are tensors; for the others there must be none."""
    gradients: list[Tensor | None] = []
    for value, is_tensor, position in zip(values, kinds, positions, strict=True):
        if not is_tensor:
            if value is not None:
                raise function_errors.gradient_for_non_tensor(name, position)
            continue
        if value is not None and not isinstance(value, Tensor):
            raise function_errors.gradient_type(name, position, value)
        gradients.append(value)
    return gradients


def _nested_zeros(shape: tuple[Any, ...], dtype: Any, given: Any) -> Tensor:
    """Zeros of a nested shape, whose lengths only a gradient beside it can tell."""
    for value in given:
        array = getattr(value, "_array", value)
        if array is not None and array.shape == shape:
            return wrap(array.zeros().astype(dtype))
    raise RuntimeError(
        f"No gradient arrived for a nested result of shape {shape}, and none of that shape beside "
        "it tells the lengths of its components. Call ctx.set_materialize_grads(False)."
    )
