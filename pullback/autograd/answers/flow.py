"""Where the gradient vanishes or explodes: norms and zeros on the way from the loss, by module.

One pass over the graph, which is kept, and which adds to no `.grad`. Of the forward, what nodes
saved tells of units that are dead (zero for the whole batch) or saturated (flat there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import Any

import numpy

from pullback.autograd.answers.modules import ModuleNames, named_tensors
from pullback.autograd.graph.table import as_text
from pullback.core.node import AccumulateGrad, node_and_number, walk
from pullback.core.origin import Origin
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.engine import node_observers
from pullback.engine.backward import grad

__all__ = ["Flow", "FlowModule", "FlowOperator", "FlowParameter", "flow"]


@dataclass(slots=True)
class FlowOperator:
    """What arrived at one node."""

    name: str
    module: str
    origin: Origin | None
    norm: float  # of the gradient of its result
    zeros: float  # the share of its elements that are 0
    note: str = ""  # dead or saturated units


@dataclass(slots=True)
class FlowParameter:
    """A parameter and its gradient; None where none arrives."""

    name: str
    weight: float  # norms
    gradient: float | None
    zeros: float
    ratio: float | None  # of an update (lr times the gradient) to the weight

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        if self.gradient is None:
            return self.name, f"{self.weight:.3g}", "none", "", ""
        ratio = "" if self.ratio is None else f"{self.ratio:.2g}"
        return self.name, f"{self.weight:.3g}", f"{self.gradient:.3g}", _share(self.zeros), ratio


@dataclass(slots=True)
class FlowModule:
    """What arrived at a module's last node, and what is notable inside."""

    label: str
    norm: float
    zeros: float
    operators: list[FlowOperator] = field(default_factory=list)
    verdict: str = ""

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        notes = [one.note for one in self.operators if one.note]
        told = "; ".join(filter(None, [self.verdict, *notes]))
        return (
            self.label or "(outside)",
            f"{self.norm:.3g}",
            _bar(self.norm),
            _share(self.zeros),
            told,
        )


_MODULES = ("module", "gradient", "", "zeros", "")
_PARAMETERS = ("parameter", "weight", "gradient", "zeros", "update/weight")


class Flow:
    """Modules in the order of the forward, parameters, and single operators; prints as tables."""

    def __init__(
        self, modules: list[FlowModule], parameters: list[FlowParameter], loss: float
    ) -> None:
        self.modules = modules
        self.parameters = parameters
        self.loss = loss

    @property
    def operators(self) -> list[FlowOperator]:
        """Of all modules."""
        return [one for module in self.modules for one in module.operators]

    def __getitem__(self, path: str) -> FlowModule:
        for module in self.modules:
            if module.label.partition(":")[0] == path:
                return module
        raise KeyError(path)

    def __iter__(self) -> Iterator[FlowModule]:
        return iter(self.modules)

    @property
    def problems(self) -> list[str]:
        """One sentence for each thing that looks wrong."""
        found = [f"{m.label or '(outside)'}: {m.verdict}" for m in self.modules if m.verdict]
        found += [f"{o.module or o.name}: {o.note}" for o in self.operators if o.note]
        missing = [p.name for p in self.parameters if p.gradient is None]
        return found + ([f"no gradient reaches {', '.join(missing)}"] if missing else [])

    def _title(self) -> str:
        count = len(self.problems)
        found = "1 finding" if count == 1 else f"{count} findings"
        return f"gradient flow, loss {self.loss:.4g}: {found}"

    def __repr__(self) -> str:
        modules = as_text(self._title(), _MODULES, [one.cells() for one in self.modules])
        parameters = as_text("", _PARAMETERS, [one.cells() for one in self.parameters])
        return f"{modules}\n{parameters}"

    def page(self, title: str = "gradient flow") -> Any:
        """Both tables, and every operator, as a page."""
        from pullback.autograd.answers.report import Report, lines, table

        marked = [at for at, one in enumerate(self.modules) if one.cells()[-1]]
        curve = lines(
            "log10 of the gradient's norm, module by module from the first to the loss",
            {"log10 of the norm": [_log(one.norm) for one in self.modules]},
        )
        rows = [
            (o.module, o.name, f"{o.norm:.3g}", _share(o.zeros), str(o.origin or ""), o.note)
            for o in self.operators
        ]
        header = ("module", "operator", "gradient", "zeros", "line", "")
        return Report(
            title,
            f"<p>{self._title()}</p>{curve}"
            f"<h2>Modules</h2>{table(_MODULES, [one.cells() for one in self.modules], marked)}"
            f"<h2>Parameters</h2>{table(_PARAMETERS, [one.cells() for one in self.parameters])}"
            f"<h2>Operators</h2>{table(header, rows)}",
        )

    def save(self, path: Any) -> str:
        """Write the page as an .html file."""
        return str(self.page().save(path))

    def _repr_html_(self) -> str:
        return str(self.page()._repr_html_())


def flow(model: Any, loss: Tensor, *, lr: float | None = None) -> Flow:
    """Norms and zeros of the gradient on its way from `loss` through `model`'s modules.

    The graph is kept and no `.grad` changes. `lr` gives the ratio of an update to its weight: about
    1e-3 is healthy. For parts without parameters compute the loss inside `name_modules(model)`.

    >>> import pullback as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> _ = torch.nn.init.constant_(model[0].bias, -100.0)  # every unit is off
    >>> found = torch.autograd.graph.flow(model, model(torch.ones(4, 2)).sum())
    >>> found.problems[-1]
    'ReluBackward0: 3 of 3 units are dead (0 for the whole batch)'
    """
    nodes = [n for n in walk(iter([node_and_number(edge_of(loss))[0]])) if n is not None]
    notes = {id(node): _judged(node) for node in nodes}  # before anything could be freed
    named = named_tensors(model)
    wanted = [(name, tensor) for name, tensor in named if tensor.requires_grad]
    seen = _Seen()
    node_observers.add(seen)
    try:
        tensors = [tensor for _, tensor in wanted]
        start = loss if loss.numel() == 1 else loss.sum()
        grads: Any = grad(start, tensors, retain_graph=True, allow_unused=True) if tensors else ()
    finally:
        node_observers.remove(seen)
    parameters = [_parameter(n, t, g, lr) for (n, t), g in zip(wanted, grads, strict=True)]
    modules = _by_module(seen.arrived, ModuleNames(model), notes)
    return Flow(modules, parameters, float(start.detach().item()))


def gradient_norms(roots: list[Tensor]) -> dict[Any, float]:
    """The norm of the gradient that arrives at each node; the graph is kept, no `.grad` changes."""
    seen = _Seen()
    edges = [node_and_number(edge_of(root))[0] for root in roots]
    leaves = [n.variable for n in walk(iter(edges)) if isinstance(n, AccumulateGrad)]
    node_observers.add(seen)
    try:
        starts = [root if root.numel() == 1 else root.sum() for root in roots]
        found: Any = grad(starts, leaves, retain_graph=True, allow_unused=True) if leaves else ()
    finally:
        node_observers.remove(seen)
    norms = {node: norm for node, norm, _ in seen.arrived}
    for leaf, g in zip(leaves, found, strict=True):
        if g is not None:
            norms[AccumulateGrad.of(leaf)] = _norm_and_zeros([g._array])[0]
    return norms


class _Seen:
    """What arrived at each node."""

    def __init__(self) -> None:
        self.arrived: list[tuple[Any, float, float]] = []

    def start(self, node: Any) -> Any:
        """Before a node."""
        return node

    def ran(self, node: Any, gradients: Any, results: Any) -> Any:
        """After it."""
        given = gradients if isinstance(gradients, tuple | list) else (gradients,)
        arrays = [getattr(one, "_array", one) for one in given if one is not None]
        self.arrived.append((node, *_norm_and_zeros(arrays)))
        return node

    def finish(self, node: Any, token: Any) -> None:
        """Its results are where they go."""


def _norm_and_zeros(arrays: list[Any]) -> tuple[float, float]:
    square = sum(float(numpy.vdot(a, a).real) for a in map(_wide, arrays))
    size = sum(one.size for one in arrays)
    zeros = size - sum(int(numpy.count_nonzero(one)) for one in arrays)
    return sqrt(square) if square >= 0 else float("nan"), zeros / size if size else 0.0


def _wide(array: Any) -> Any:
    """In double precision, whose squares neither vanish nor overflow."""
    return numpy.asarray(array).astype(complex if array.dtype.kind == "c" else float)


def _parameter(name: str, tensor: Tensor, g: Any, lr: float | None) -> FlowParameter:
    weight = _norm_and_zeros([tensor._array])[0]
    if g is None:
        return FlowParameter(name, weight, None, 0.0, None)
    norm, zeros = _norm_and_zeros([g._array])
    ratio = None if lr is None else lr * norm / weight if weight else float("inf")
    return FlowParameter(name, weight, norm, zeros, ratio)


def _by_module(
    arrived: list[tuple[Any, float, float]], names: ModuleNames, notes: dict[int, str]
) -> list[FlowModule]:
    paths = names.paths(node for node, _, _ in arrived)
    found: dict[str, FlowModule] = {}
    # From the loss on: the first node of a module that is met is its last in the forward.
    for node, norm, zeros in arrived:
        if node._seq >= 0:
            continue  # a leaf
        label = names.label(paths.get(node))
        module = found.setdefault(label, FlowModule(label, norm, zeros))
        note = notes.get(id(node), "")
        name = type(node).__name__
        module.operators.append(FlowOperator(name, label, node._origin, norm, zeros, note))
    modules = list(found.values())[::-1]
    for module in modules:
        module.operators.reverse()
    _judge(modules)
    return modules


_LEAST, _MOST = 1e-5, 1e5


def _judge(modules: list[FlowModule]) -> None:
    """Compare each with what arrives from the loss."""
    finite = [m.norm for m in modules if isfinite(m.norm) and m.norm > 0]
    first = finite[-1] if finite else 1.0
    for module in modules:
        # Operators stand in the order of the forward: the last is the first that the pass met.
        bad = [one for one in module.operators if not isfinite(one.norm)]
        if bad:
            place = "" if bad[-1].origin is None else f" at {bad[-1].origin}"
            module.verdict = f"the gradient is not finite when it comes to {bad[-1].name}{place}"
        elif module.norm == 0:
            module.verdict = "the gradient is zero"
        elif module.norm < _LEAST * first:
            module.verdict = f"vanishes: {module.norm / first:.1e} of what it is at the loss"
        elif module.norm > _MOST * first:
            module.verdict = f"explodes: {module.norm / first:.1e} of what it is at the loss"


# What the forward left -----------------------------------------------------------------------


def _judged(node: Any) -> str:
    check = _CHECKS.get(type(node).__name__)
    if check is None:
        return ""
    array = getattr(node, f"s_{type(node).plan.outputs[0]}", None)
    if not isinstance(array, numpy.ndarray) or not array.size:
        return ""
    return check(array)


def _units(array: Any) -> Any:
    """One row per example, one column per unit: of images, a unit is a channel."""
    if array.ndim < 2:
        return array.reshape(1, -1)
    if array.ndim == 2:
        return array
    return numpy.moveaxis(array, 1, -1).reshape(-1, array.shape[1])


def _dead(array: Any) -> str:
    units = _units(array)
    dead = int((units == 0).all(axis=0).sum())
    if not dead or (units.shape[0] == 1 and dead < units.shape[1]):
        return ""  # of one example, half the units of a healthy layer are off
    return f"{dead} of {units.shape[1]} units are dead (0 for the whole batch)"


def _saturated(low: float, high: float) -> Callable[[Any], str]:
    def check(array: Any) -> str:
        flat = float(((array < low) | (array > high)).mean())
        return f"{flat:.0%} of its values are saturated" if flat > 0.5 else ""

    return check


_CHECKS = {
    "ReluBackward0": _dead,
    "TanhBackward0": _saturated(-0.99, 0.99),
    "SigmoidBackward0": _saturated(0.01, 0.99),
}


def _share(value: float) -> str:
    return f"{value:.0%}"


def _log(value: float) -> float:
    return float(numpy.log10(value)) if value > 0 else float("nan")


def _bar(norm: float) -> str:
    """From 1e-12 (nothing) to 1e6 and beyond, a mark for each power of ten."""
    if not isfinite(norm) or norm <= 0:
        return ""
    return "#" * max(0, min(18, round(_log(norm)) + 12))
