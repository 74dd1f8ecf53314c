"""Where a pass can stop, what is known there, and which stops somebody asked for."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy

from pullback.autograd.answers.modules import ModuleNames
from pullback.autograd.graph.memory import saved_values
from pullback.core.dtype import from_numpy_dtype
from pullback.core.node import AccumulateGrad, node_and_number, walk
from pullback.core.origin import Origin
from pullback.core.tensor import Tensor, wrap
from pullback.core.view import edge_of

__all__ = ["Breakpoint", "Stop", "Stopping", "described"]


class Stop:
    """A moment of a pass: before or after a node."""

    def __init__(self, number: int, node: Any, when: str, grads: Any, results: Any) -> None:
        self.number = number  # of the node's turn, from 1
        self.node = node
        self.when = when  # "before" or "after"
        self.arrived: tuple[Any, ...] = grads
        self.results: tuple[Any, ...] | None = results  # after the node: what it gives
        self.module = ""
        self.label = ""  # the name of a leaf

    @property
    def name(self) -> str:
        """Of the node's class."""
        return type(self.node).__name__

    @property
    def operator(self) -> str:
        """What the node is the backward of; a leaf's node accumulates its gradient."""
        if isinstance(self.node, AccumulateGrad):
            return "accumulate"
        return re.sub(r"Backward\d*$", "", self.name)

    @property
    def origin(self) -> Origin | None:
        """The user's line that made the node."""
        origin: Origin | None = self.node._origin
        return origin

    @property
    def grad(self) -> Any:
        """The gradient that arrived; the first of several."""
        return self.arrived[0] if self.arrived else None

    @cached_property
    def saved(self) -> dict[str, Tensor]:
        """What the node kept of the forward."""
        if isinstance(self.node, AccumulateGrad):
            return {}
        return {name: wrap(array) for name, array, _ in saved_values(self.node)}

    def names(self) -> dict[str, Any]:
        """What conditions and expressions may speak of."""
        numbers = statistics(self.grad)
        return {
            "grad": self.grad,
            "grads": self.results,
            "saved": self.saved,
            "node": self.node,
            "name": self.name,
            "module": self.module,
            "line": self.origin.line if self.origin is not None else None,
            "when": self.when,
            **numbers,
        }


def statistics(tensor: Any) -> dict[str, Any]:
    """Norm, extremes, zeros and whether all is finite, of a gradient; zeros of none."""
    empty = {"norm": 0.0, "min": 0.0, "max": 0.0, "mean": 0.0, "zeros": 1.0, "size": 0}
    if not isinstance(tensor, Tensor) or not tensor._array.size:
        return {**empty, "nan": False, "inf": False, "shape": ()}
    array = tensor._array
    values = numpy.abs(array) if array.dtype.kind == "c" else array
    wide = values.astype(float)
    return {
        "norm": float(numpy.linalg.norm(wide)),
        "min": float(wide.min()),
        "max": float(wide.max()),
        "mean": float(wide.mean()),
        "zeros": float((wide == 0).mean()),
        "size": int(wide.size),
        "nan": bool(numpy.isnan(wide).any()),
        "inf": bool(numpy.isinf(wide).any()),
        "shape": tuple(array.shape),
    }


def described(tensor: Any) -> str:
    """A gradient in one line."""
    if not isinstance(tensor, Tensor):
        return "none"
    found = statistics(tensor)
    kind = str(from_numpy_dtype(tensor._array.dtype)).removeprefix("torch.")
    bad = "".join(f", has {what}" for what in ("nan", "inf") if found[what])
    return (
        f"{kind}{list(tensor._array.shape)} norm {found['norm']:.4g}, from {found['min']:.4g} to "
        f"{found['max']:.4g}, {found['zeros']:.0%} zeros{bad}"
    )


class Breakpoint:
    """Where to stop: a node, a line, a module, a condition, or what a function says."""

    def __init__(self, spec: Any, names: ModuleNames) -> None:
        self.spec = spec
        self._matches, self.kind = _matcher(spec, names)
        self._after = self.kind == "function" or bool(re.search(r"\b(grads|when)\b", str(spec)))

    def matches(self, stop: Stop) -> bool:
        """Whether to stop here: before the node, unless it is about what the node gives."""
        if stop.when != "before" and not self._after:
            return False
        return bool(self._matches(stop))

    def __str__(self) -> str:
        return f"{self.kind} {self.spec}"


_LINE = re.compile(r"(?:(.+):)?(\d+)$")


def _matcher(spec: Any, names: ModuleNames) -> tuple[Callable[[Stop], bool], str]:
    if callable(spec):
        return spec, "function"
    if isinstance(spec, int):
        spec = str(spec)
    if not isinstance(spec, str) or not spec.strip():
        raise TypeError(
            "a break is the name of a node, a line ('train.py:12'), a module, a condition "
            f"('norm > 1e3') or a function, got {spec!r}."
        )
    spec = spec.strip()
    line = _LINE.match(spec)
    if spec in names.labels:  # first, as modules of a Sequential are called '0' and '1'
        return _module(spec), "module"
    if line is not None:
        return _at_line(line[1], int(line[2])), "line"
    if spec in ("nan", "inf") or re.search(r"[<>=() ]", spec):
        return _condition(spec), "condition"
    wanted = spec.lower().removesuffix("backward0")
    return lambda stop: _is_called(stop.name, wanted), "node"


def _is_called(name: str, wanted: str) -> bool:
    plain = name.lower()
    return plain == wanted or re.sub(r"backward\d*$", "", plain) == wanted.replace("_", "")


def _module(path: str) -> Callable[[Stop], bool]:
    return lambda stop: stop.module.partition(":")[0] == path or stop.module.startswith(f"{path}.")


def _at_line(file: str | None, number: int) -> Callable[[Stop], bool]:
    def there(stop: Stop) -> bool:
        place = stop.origin
        if place is None or place.line != number:
            return False
        return file is None or place.file == file or os.path.basename(place.file) == file

    return there


def _condition(text: str) -> Callable[[Stop], bool]:
    code = compile(text, "<break>", "eval")
    return lambda stop: bool(eval(code, {"numpy": numpy}, stop.names()))


class Stopping:
    """A context in which every node of a graph calls `at(stop)` before and after its turn."""

    def __init__(
        self,
        loss: Tensor,
        names: ModuleNames,
        at: Callable[[Stop], None],
        variables: Mapping[int, str] | None = None,
    ) -> None:
        self._at = at
        self._variables = variables or {}  # names of leaves in the program, by id
        self._names = names
        self._nodes = [n for n in walk(iter([node_and_number(edge_of(loss))[0]])) if n is not None]
        if not self._nodes:
            raise RuntimeError(f"debug(): there is nothing to step through. {loss.why_no_grad()}")
        self._turns = 0
        self._ran = [0, 0]  # nodes and leaves
        self._hooks = contextlib.ExitStack()

    def __enter__(self) -> Stopping:
        paths = self._names.paths(self._nodes)
        for node in self._nodes:
            label = self._names.label(paths.get(node))
            before, after = self._hooks_of(node, label)
            self._hooks.callback(node.register_prehook(before).remove)
            self._hooks.callback(node.register_hook(after).remove)
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.close()
        self._nodes.clear()

    def counted(self) -> str:
        """What ran."""
        nodes, leaves = self._ran
        return f"{nodes} node{'s' * (nodes != 1)}, {leaves} lea{'f' if leaves == 1 else 'ves'}"

    def _hooks_of(self, node: Any, module: str) -> tuple[Any, Any]:
        leaf = isinstance(node, AccumulateGrad)
        label = ""
        if leaf:
            given = self._variables.get(id(node.variable), "")
            label = self._names.of_tensor(node.variable) or given

        def stop(when: str, grads: Any, results: Any) -> None:
            made = Stop(self._turns, node, when, tuple(grads), results)
            made.module, made.label = module, label
            self._at(made)

        def before(grads: Any) -> None:
            self._turns += 1
            self._ran[leaf] += 1
            stop("before", grads, None)

        def after(results: Any, grads: Any) -> None:
            stop("after", grads, tuple(results))

        return before, after
