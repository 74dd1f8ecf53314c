"""A captured pass as a module of five lists: tensors, sizes, numbers, hooks, packed values.

Where a pass was captured at several sizes, a number that differs between those captures is an
expression of the sizes, which the graph computes from its second input.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pullback.compiled.backward.lifted import Lifted
from pullback.compiled.backward.sizes import Family
from pullback.compiled.backward.whole import Opaque
from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.graph import enter_as, enter_calls, overload_of, read_by
from pullback.compiled.sizes.fit import NoFit
from pullback.core.tensor import wrap
from pullback.fx.node import Node

__all__ = ["INPUTS", "PassModule"]

INPUTS = ("inputs", "sizes", "scalars", "hooks", "packed_data")
_OPERATORS: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Pow: operator.pow,
}  # fmt: skip
# What formulas make of a factor before they use it.
_FORMS: dict[str, Callable[[Any], Any]] = {
    "{}": lambda one: one,
    "(-1.0 * {})": operator.neg,
}


class PassModule:
    """Writes the graph of a captured pass."""

    def __init__(
        self,
        captures: Sequence[Captured],
        results: list[Any],
        many: int,
        family: Family | None = None,
        calls_at: Callable[[tuple[int, ...]], list[Call]] | None = None,
    ) -> None:
        """`many` tensors were lifted; constants of the program come after them.

        With several captures, `calls_at` gives the calls at sizes.
        """
        from pullback.fx.graph import Graph
        from pullback.fx.graph_module import GraphModule

        self.graph = Graph()
        self.lists = {name: self.graph.placeholder(name) for name in INPUTS}
        self.nodes: dict[int, Any] = {}
        self._items: dict[Lifted, Any] = {}
        self._family, self._calls_at = family, calls_at
        self._expressions: dict[str, Any] = {}
        # Those that some number depends on.
        self.used: dict[str, list[str]] = {"sizes": [], "scalars": []}
        first = captures[0]
        self.calls = live(first.calls, [one for one in results if one is not None])
        self.places: list[int] = []  # of the tensors and constants of the first list
        self._enter_inputs(first, results, many)
        numbers = {id(call): number for number, call in enumerate(first.calls)}
        for call in self.calls:
            number = numbers[id(call)]
            self._enter([one.calls[number] for one in captures], number)
        self.graph.output([None if one is None else self.nodes[one.number] for one in results])
        self.module = GraphModule({}, self.graph, "CompiledAutograd")

    # Inputs -----------------------------------------------------------------------------------

    def _enter_inputs(self, captured: Captured, results: list[Any], many: int) -> None:
        read = {one.number for call in self.calls for one in call.inputs}
        read |= {one.number for one in results if one is not None}
        lifted = {one.place for call in self.calls for one in _lifted(call.args)
                  if one.name == "inputs"}  # fmt: skip
        values: dict[int, Value] = {}
        for number, one in enumerate(captured.inputs):
            if one.value.number in read:
                place = one.place if one.kind == "argument" else many + number
                values[place] = one.value
        for place in sorted({*values, *lifted}):
            self.places.append(place)
            item = (self.lists["inputs"], len(self.places) - 1)
            node = self._items[Lifted("inputs", place)] = self.graph.call_function(
                operator.getitem, item
            )
            if place in values:
                self.nodes[values[place].number] = node
                node.meta["val"] = values[place]

    def _item(self, one: Lifted) -> Any:
        if one not in self._items:
            item = (self.lists[one.name], one.place)
            self._items[one] = self.graph.call_function(operator.getitem, item)
        return self._items[one]

    # Calls ------------------------------------------------------------------------------------

    def _enter(self, calls: list[Call], number: int) -> None:
        """One call, seen at one size or at several."""
        first = calls[0]
        if isinstance(first, Opaque):
            self._enter_opaque(first)
            return
        if len(calls) == 1:
            enter_calls(self.graph, [first], self.nodes)
            return
        spelled = [overload_of(call, self.nodes) for call in calls]
        if None not in spelled and all(one[0] is spelled[0][0] for one in spelled):
            args = self._joined([one[1] for one in spelled])
            kwargs = self._joined([one[2] for one in spelled])
            enter_as(self.graph, first, self.nodes, spelled[0][0], args, kwargs)
            return
        if any(name[0] == "c" for name in self._names):
            raise NoFit(f"{first.name}, which has no spelling as an operator of numbers")
        read = read_by(first)
        step = self._sized_step(first, number, [one.number for one in read])
        sizes = [self._expression(name) for name in self._names]
        args = (*sizes, *[self.nodes[one.number] for one in read])
        enter_as(self.graph, first, self.nodes, step, args, {})

    def _enter_opaque(self, call: Opaque) -> None:
        args, single = self._filled(call.args), call.places is None
        made = self.graph.call_function(call.kernel, args, dict(call.kwargs), name=call.name)
        made.meta.update(call=call, stack_trace=str(call.origin or ""))
        for place, one in zip(call.places or (0,), call.results, strict=False):
            node = made if single else self.graph.call_function(operator.getitem, (made, place))
            node.meta["val"] = one
            self.nodes[one.number] = node

    def _filled(self, tree: Any) -> Any:
        if isinstance(tree, tuple):
            return tuple(self._filled(one) for one in tree)
        if isinstance(tree, Value):
            return self.nodes[tree.number]
        return self._item(tree) if isinstance(tree, Lifted) else tree

    # Sizes ------------------------------------------------------------------------------------

    @property
    def _names(self) -> list[str]:
        return [] if self._family is None else self._family.joined.names

    def _joined(self, trees: Sequence[Any]) -> Any:
        """One tree of arguments, with nodes for numbers that differ."""
        first = trees[0]
        if isinstance(first, Node):
            if any(one is not first for one in trees):
                raise NoFit("the pass does other things at other sizes")
            return first
        if isinstance(first, tuple | list):
            if any(len(one) != len(first) for one in trees):
                raise NoFit("an argument has another length at other sizes")
            made = [self._joined(one) for one in zip(*trees, strict=True)]
            return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)
        if isinstance(first, dict):
            if any(one.keys() != first.keys() for one in trees):
                raise NoFit("an argument has other keys at other sizes")
            return {name: self._joined([one[name] for one in trees]) for name in first}
        if all(one.__class__ is first.__class__ and one == first for one in trees):
            return first
        if first.__class__ not in (int, float) or self._family is None:
            raise NoFit(f"an argument of type {type(first).__name__} is another at other sizes")
        text = self._factor(trees, self._family.joined.fit.points)
        return self._expression(text or self._family.joined.fit.text(trees))

    def _factor(self, numbers: Sequence[Any], points: list[dict[str, Any]]) -> str | None:
        """The factor that a number is, perhaps rounded as tensors do that it is used with."""
        for name in self._names if isinstance(numbers[0], float) else ():
            for text, change in _FORMS.items() if name[0] == "c" else ():
                for rounded in (float, numpy.float32, numpy.float16):
                    made = [float(rounded(change(point[name]))) for point in points]
                    if made == list(numbers):
                        return text.format(name)
        return None

    def _expression(self, text: str) -> Any:
        """The node of an expression of sizes."""
        if text not in self._expressions:
            self._expressions[text] = self._computed(ast.parse(text, mode="eval").body)
        return self._expressions[text]

    def _computed(self, tree: ast.expr) -> Any:
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.UnaryOp):  # of which only signs of numbers are written
            return operator.neg(self._computed(tree.operand))
        if isinstance(tree, ast.Name):
            used = self.used["sizes" if tree.id[0] == "s" else "scalars"]
            if tree.id not in used:
                used.append(tree.id)
            return self._item(Lifted("sizes" if tree.id[0] == "s" else "scalars",
                                     used.index(tree.id)))  # fmt: skip
        assert isinstance(tree, ast.BinOp)
        operands = (self._computed(tree.left), self._computed(tree.right))
        target = _OPERATORS[type(tree.op)]
        if not any(isinstance(one, Node) for one in operands):
            return target(*operands)
        return self.graph.call_function(target, operands)

    def _sized_step(self, call: Call, number: int, read: list[int]) -> Any:
        """A function of sizes and of a call's tensors, which has no spelling as an overload."""
        calls_at, many, single = self._calls_at, len(self._names), call.single
        assert calls_at is not None

        def step(*given: Any) -> Any:
            now = calls_at(given[:many])[number]
            arrays = [one._array for one in given[many:]]
            made = now.run(dict(zip(read, arrays, strict=True)))
            return wrap(made[0]) if single else tuple(map(wrap, made))

        # Written code knows functions by their names.
        step.__name__ = step.__qualname__ = f"{call.name.strip('_').replace('.', '_')}_{number}"
        step.__doc__ = call.name
        return step


def _lifted(tree: Any) -> list[Lifted]:
    if isinstance(tree, tuple):
        return [found for one in tree for found in _lifted(one)]
    return [tree] if isinstance(tree, Lifted) else []
