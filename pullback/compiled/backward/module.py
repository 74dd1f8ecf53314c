"""A captured pass as a module of five lists: tensors, sizes, numbers, hooks, packed values."""

from __future__ import annotations

import operator
from typing import Any

from pullback.compiled.backward.lifted import Lifted
from pullback.compiled.backward.whole import Opaque
from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.graph import enter_calls

__all__ = ["INPUTS", "PassModule"]

INPUTS = ("inputs", "sizes", "scalars", "hooks", "packed_data")


class PassModule:
    """Writes the graph of a captured pass."""

    def __init__(self, captured: Captured, results: list[Any], many: int) -> None:
        """`many` tensors were lifted; constants of the program come after them."""
        from pullback.fx.graph import Graph
        from pullback.fx.graph_module import GraphModule

        self.graph = Graph()
        self.lists = {name: self.graph.placeholder(name) for name in INPUTS}
        self.nodes: dict[int, Any] = {}
        self._items: dict[Lifted, Any] = {}
        self.calls = live(captured.calls, [one for one in results if one is not None])
        self.places: list[Any] = []  # what the first list has: places of tensors, constants
        self._enter_inputs(captured, results, many)
        for call in self.calls:
            self._enter(call)
        self.graph.output([None if one is None else self.nodes[one.number] for one in results])
        self.module = GraphModule({}, self.graph, "CompiledAutograd")

    def _enter_inputs(self, captured: Captured, results: list[Any], many: int) -> None:
        read = {one.number for call in self.calls for one in call.inputs}
        read |= {one.number for one in results if one is not None}
        lifted = {one.place for call in self.calls for one in _lifted(call.args)
                  if one.name == "inputs"}  # fmt: skip
        values: dict[int, Value] = {}
        constants = []
        for one in captured.inputs:
            if one.value.number not in read:
                continue
            if one.kind == "argument":
                values[one.place] = one.value
            else:
                constants.append(one)
        for place in range(many):
            if place not in values and place not in lifted:
                continue
            node = self._input(place)
            self._items[Lifted("inputs", place)] = node
            if place in values:
                self.nodes[values[place].number] = node
                node.meta["val"] = values[place]
        for one in constants:
            node = self.nodes[one.value.number] = self._input(one)
            node.meta["val"] = one.value

    def _input(self, place: Any) -> Any:
        self.places.append(place)
        return self.graph.call_function(
            operator.getitem, (self.lists["inputs"], len(self.places) - 1)
        )

    def _enter(self, call: Call) -> None:
        if not isinstance(call, Opaque):
            enter_calls(self.graph, [call], self.nodes)
            return
        args = self._filled(call.args)
        single = call.places is None
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

    def _item(self, one: Lifted) -> Any:
        if one not in self._items:
            self._items[one] = self.graph.call_function(
                operator.getitem, (self.lists[one.name], one.place)
            )
        return self._items[one]


def _lifted(tree: Any) -> list[Lifted]:
    if isinstance(tree, tuple):
        return [found for one in tree for found in _lifted(one)]
    return [tree] if isinstance(tree, Lifted) else []
