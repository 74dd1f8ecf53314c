"""The one autograd node of a compiled call.

Its backward is a program too, or was run ahead: where the call gives one number, the program that
computes it computes the gradients as well, and the node only scales them by what arrives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

import numpy

from pullback.core import errors
from pullback.core.arrays import as_array
from pullback.core.node import AccumulateGrad, BuiltIn, Leaf, OperatorNode
from pullback.core.origin import getframe, internal, user_frame
from pullback.core.saved import Freed
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new, wrap
from pullback.engine.accumulate import accumulate
from pullback.engine.backward import nobody_looks

__all__ = ["AskingBackward", "CompiledBackward", "SpentBackward", "attach"]


class CompiledBackward(OperatorNode, metaclass=BuiltIn):
    """A compiled call, seen from its results."""

    __slots__ = (
        *("_g_sizes", "ahead", "entry", "given", "kept", "saved", "sources", "used", "versions"),
    )

    entry: Any
    ahead: Any  # gradients computed with the forward, by edge; None where there are none
    saved: Any  # arrays that the backward program reads
    kept: Any  # counters of tensors that are on their memory, each with its version, where saved
    given: Any  # the arrays of the sources; not there where gradients came with the result
    sources: Any  # the tensors of the entry's inputs, for running it again; or what freed them
    versions: Any
    used: list[bool]

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        if type(self.sources) is Freed:
            raise errors.graph_freed(self, self.sources)
        self.used[0] = True
        ahead = self.ahead
        if ahead is not None:
            # Handed over as they are: the engine may add to them, so another pass makes new ones.
            self.ahead = None
            # A device is not asked what the gradient is: that would wait for it.
            if type(g) is numpy.ndarray and g.size == 1 and g.item() == 1:
                return tuple(ahead)
            return tuple([None if one is None else one * g.reshape(()) for one in ahead])
        if self.saved is not None:
            self._check_results()
        made: tuple[Any, ...] = self.entry.backward(self, g if isinstance(g, list) else [g])
        return made

    def _run_alone(self) -> bool:
        """A whole pass from here, where all gradients are at hand; False: the engine must."""
        ahead = self.ahead
        if ahead is None or self._cold is not None or not nobody_looks():
            return False
        for edge in self._edges:
            if edge.__class__ is not AccumulateGrad or edge._cold is not None:
                return False
        self.used[0] = True
        frame: Any = getframe(2)
        if internal[frame.f_code.co_filename]:
            frame = user_frame(frame)
        self._release(Freed(frame, [ref(self)]))
        edges: Any = self._edges
        for edge, g in zip(edges, ahead, strict=True):
            leaf = edge.variable
            if (
                leaf._stored_grad is None
                and leaf._node.__class__ is Leaf
                and (g.strides == leaf._array.strides and leaf._grad_dtype == "same")
            ):
                leaf._stored_grad = wrap(g)
            else:
                accumulate(edge, g, owned=True)
        return True

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """Differentiable gradients: the captured calls again, as operators on tensors."""
        if type(self.sources) is Freed:
            raise errors.graph_freed(self, self.sources)
        self.used[0] = True
        made: tuple[Any, ...] = self.entry.backward_tensors(self, g if isinstance(g, list) else [g])
        return made

    def check_versions(self, read: Iterable[int]) -> None:
        """Refuse if inputs of these numbers, which are read now, were changed since the call."""
        given = getattr(self, "given", None)
        for number in read:
            tensor, version = self.sources[number], self.versions[number]
            if tensor is None:
                continue
            exchanged = given is not None and tensor._array is not given[number]
            if exchanged or tensor._cell[0] != version:
                raise RuntimeError(
                    f"{type(self).name(self)} needs a tensor of shape {tuple(tensor.shape)} as it "
                    "was when the compiled function was called, but it was changed in place since. "
                    "Clone it before the call, or change it after backward()."
                )

    def _check_results(self) -> None:
        """Refuse if a result, or a part of an input, was written to since the call and is read."""
        for cell, version in self.kept:
            if cell[0] != version:
                raise RuntimeError(
                    f"{type(self).name(self)} needs a result of the compiled function, or a tensor "
                    "given to it, as it was then, but it was changed in place since. Clone it, or "
                    "change it after backward()."
                )

    def _steps(self) -> list[str]:
        from pullback.compiled.explain import step_lines

        return [line for program in self.entry.programs() for line in step_lines(program)]

    def _release(self, freed: Any) -> None:
        self.ahead = self.saved = self.kept = self.given = None
        self.sources = freed

    def __call__(self, *gradients: Any) -> Any:
        """Evaluate the backward: no hooks, nothing is freed."""
        given = gradients[0] if self._g_sizes is None else list(gradients)
        results = self._run_tensors(given, self._edges)
        return results[0] if len(results) == 1 else tuple(results)


class AskingBackward(CompiledBackward):
    """The same where the user's code belongs to the backward: a hook, Function or checkpoint."""

    __slots__ = ("moment",)

    moment: Any  # the tensors that this code looks at, each with its array and version

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        self._check()
        return super()._run(g, edges)

    def _run_alone(self) -> bool:
        self._check()
        return super()._run_alone()

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        self._check()
        self.entry.check_twice(self)
        return super()._run_tensors(g, edges)

    def _check(self) -> None:
        if type(self.sources) is not Freed:
            self.entry.check_moment(self)

    def _release(self, freed: Any) -> None:
        super()._release(freed)
        self.moment = None


AskingBackward.__name__ = AskingBackward.__qualname__ = CompiledBackward.__name__


class SpentBackward(OperatorNode, metaclass=BuiltIn):
    """The node of a result whose history the compiled function itself has used up."""

    __slots__ = ()

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        raise RuntimeError(
            "backward() through a compiled function that ran backward() itself: the graph behind "
            "this result was freed inside it. Pass retain_graph=True there, or do not go through "
            "it again."
        )

    _run_tensors = _run


def attach(cls: Any, results: list[Tensor], edges: tuple[Any, ...]) -> Any:
    """A new node behind `results`, which must not be empty."""
    node = new(cls)
    node._edges = edges
    node._cold = None
    array = results[0]._array
    node._g_shape, node._g_dtype = array.shape, array.dtype
    frame = user_frame(getframe(3))
    node._code, node._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    if cls is not SpentBackward:
        several = len(results) > 1
        node._g_sizes = (
            tuple((r._array.shape, r._array.dtype) for r in results) if several else None
        )
    node._seq = numbering.next()
    for number, result in enumerate(results):
        result._node = node if len(results) == 1 or cls is SpentBackward else node._output(number)
    return node


def zeros_for(sizes: Any, gradients: list[Any], xp: Any = numpy) -> list[Any]:
    """Gradients that did not arrive count as zeros, of the array library `xp`.

    What NumPy makes of no dimensions is a number, which programs do not read.
    """
    return [
        xp.zeros(*sizes[number]) if g is None else as_array(g) if xp is numpy else g
        for number, g in enumerate(gradients)
    ]


def tensors_for(sizes: Any, gradients: list[Any], xp: Any = numpy) -> list[Any]:
    """The same on tensors."""
    return [
        wrap(xp.zeros(*sizes[number])) if g is None else g for number, g in enumerate(gradients)
    ]
