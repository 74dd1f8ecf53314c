"""Forward mode through a custom Function: calls its `jvp` and checks what it returns."""

from __future__ import annotations

from typing import Any

from pullback.autograd.forward_ad import laid_out_as
from pullback.autograd.function import errors as function_errors
from pullback.core.forward import Level, visible_levels
from pullback.core.mode import changed, current, get_mode
from pullback.core.tensor import Tensor
from pullback.core.view import View
from pullback.operators.derive import write_tangents
from pullback.transforms.batched import base_of
from pullback.transforms.series import SeriesLevel


def missing_jvp(ctx: Any, *grad_inputs: Any) -> Any:
    """Tangents of the results of forward, from those of its arguments.

    Called with ctx and one tangent for each argument; returns one for each result, None for those
    that carry no gradient.
    """
    raise function_errors.no_jvp(type(ctx)._forward_cls.__name__)


def propagate(ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...], dirty: Any) -> None:
    """Give the outputs their tangents at every open level that an argument feels.

    Called after the outputs got their history and before anything is saved; `dirty` are the
    arguments that forward changed in place.
    """
    for depth, level in enumerate(list(visible_levels())):
        if not any(isinstance(arg, Tensor) and level.get(arg) is not None for arg in args):
            continue
        before = get_mode()
        # Tangents of this level are not seen while they are computed; those outside of it are.
        try:
            current.set(changed(before, dual_depth=depth))
            _Call(ctx, args, outputs, dirty, level, depth).run()
        finally:
            current.set(before)


def series_batches(cls: Any, args: tuple[Any, ...]) -> set[Any]:
    """The vmap levels whose examples are the coefficients of func.jet.

    Levels of other kinds, where tensors carry more than first derivatives that no jvp gives, are
    refused for arguments that feel them.
    """
    found = set()
    for level in visible_levels():
        if level.rule is None:
            continue
        if isinstance(level, SeriesLevel):
            found.add(level.maps)
        elif any(isinstance(arg, Tensor) and level.get(base_of(arg)) is not None for arg in args):
            raise function_errors.first_derivatives_only(cls.__name__)
    return found


def tangents_of(ctx: Any, args: tuple[Any, ...], level: Level) -> list[Any]:
    """What jvp is called with: for each argument its tangent, zeros if so asked, or None."""
    tangents = []
    for arg in args:
        tangent = None
        if isinstance(arg, Tensor) and arg.dtype.is_differentiable:
            tangent = level.get(arg)
            if tangent is None and ctx._materializes:
                tangent = type(ctx)._zeros(arg._array.shape, arg._array.dtype)
        tangents.append(tangent)
    return tangents


class _Call:
    """One call of jvp, at one level."""

    def __init__(
        self,
        ctx: Any,
        args: tuple[Any, ...],
        outputs: tuple[Any, ...],
        dirty: tuple[Any, ...],
        level: Level,
        depth: int,
    ) -> None:
        self.ctx = ctx
        self.function: str = ctx._forward_cls.__name__
        self.args = args
        self.outputs = outputs
        self.dirty = dirty
        self.level = level
        self.depth = depth

    def run(self) -> None:
        """Call jvp, check what it returns, and attach it to the outputs."""
        if isinstance(self.level, SeriesLevel):
            self._run_on_series(self.level)
            return
        known = {id(arg): self.level.get(arg) for arg in self.args if isinstance(arg, Tensor)}
        versions = {key: t._version for key, t in known.items() if t is not None}
        returned = self.ctx._forward_cls.jvp(
            self.ctx, *tangents_of(self.ctx, self.args, self.level)
        )
        for number, (output, tangent) in enumerate(
            zip(self.outputs, checked(self.ctx, self.outputs, returned), strict=True)
        ):
            if tangent is None:
                continue
            if any(one is output for one in self.dirty):
                self._write(output, tangent, known.get(id(output)), versions.get(id(output)))
            else:
                self._attach(output, tangent, number, known)
            if output.requires_grad:  # for backward, where it is saved: however it came about
                self.level.keep(self.ctx, str(number), self.level.get(output))

    def _run_on_series(self, level: SeriesLevel) -> None:
        """Call jvp order by order; results that share memory with arguments are refused."""
        if self.dirty or any(self._viewed(one) is not None for one in self._tensors()):
            raise function_errors.shares_with_series(self.function)

        def jvp(tangents: list[Any]) -> tuple[Any, ...]:
            if self.ctx._materializes:
                zeros = type(self.ctx)._zeros
                tangents = [
                    zeros(arg._array.shape, arg._array.dtype)
                    if tangent is None and isinstance(arg, Tensor) and arg.dtype.is_differentiable
                    else tangent
                    for arg, tangent in zip(self.args, tangents, strict=True)
                ]
            returned = self.ctx._forward_cls.jvp(self.ctx, *tangents)
            return checked(self.ctx, self.outputs, returned)

        made = level.through(jvp, self.args, self.outputs)
        for number, (output, tangent) in enumerate(zip(self.outputs, made, strict=True)):
            if tangent is not None:
                level.put(output, tangent)
                if output.requires_grad:
                    level.keep(self.ctx, str(number), tangent)

    def _tensors(self) -> list[Any]:
        return [one for one in self.outputs if isinstance(one, Tensor)]

    def _write(self, output: Any, tangent: Any, given: Any, version: int | None) -> None:
        """For an argument changed in place: its tangent must be changed in place too."""
        if given is None:
            if output._is_view():
                write_tangents(output, [(self.depth, self.level, tangent)])
            else:
                self.level.put(output, laid_out_as(tangent, output))
            return
        if tangent is not given:
            raise function_errors.tangent_not_returned(self.function)
        if tangent._version == version:
            raise function_errors.tangent_not_written(self.function)

    def _attach(self, output: Any, tangent: Any, number: int, known: dict[int, Any]) -> None:
        source = self._viewed(output)
        if source is not None:
            given = known[id(source)]
            if given is None:
                write_tangents(output, [(self.depth, self.level, tangent)])
                return
            if not tangent._is_view():
                raise function_errors.tangent_not_view(self.function, number)
            if tangent._base is not (given._base if given._is_view() else given):
                raise function_errors.tangent_other_view(self.function, number)
        self.level.put(output, laid_out_as(tangent, output))

    def _viewed(self, output: Any) -> Any:
        """The argument that `output` is a view of."""
        if output._node.__class__ is not View:
            return None
        base = output._base
        for arg in self.args:
            if isinstance(arg, Tensor) and (arg is base or (arg._is_view() and arg._base is base)):
                return arg
        return None


def checked(ctx: Any, outputs: tuple[Any, ...], returned: Any) -> tuple[Any, ...]:
    """What jvp returned, one tangent (or None) for each output."""
    function = ctx._forward_cls.__name__
    tangents = returned if isinstance(returned, tuple) else (returned,)
    if len(tangents) != len(outputs):
        raise function_errors.tangent_count(function, len(outputs), len(tangents))
    for number, (output, tangent) in enumerate(zip(outputs, tangents, strict=True)):
        if tangent is not None and not isinstance(tangent, Tensor):
            raise function_errors.tangent_type(function, number, tangent)
        carries = (
            isinstance(output, Tensor)
            and output.dtype.is_differentiable
            and number not in ctx._without_gradient
        )
        if not carries:
            if tangent is not None:
                raise function_errors.tangent_for_constant(function, number)
        elif tangent is None:
            raise function_errors.tangent_missing(function, number)
        elif tangent._array.shape != output._array.shape:
            raise function_errors.tangent_shape(
                function, number, tangent._array.shape, output._array.shape
            )
    return tangents
