"""The minimum cut of captured calls: what a compiled function's forward keeps for its backward."""

from __future__ import annotations

from typing import Any

from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.steps import Call, Value
from pullback.compiled.partition import kinds
from pullback.compiled.partition.cut import Joint, least

__all__ = ["least_kept"]


class _Node:
    """A call, or one value of several that it makes; hashed by identity."""

    __slots__ = ("all_input_nodes", "meta", "name", "target")

    def __init__(
        self, name: str, inputs: list[Any], call: Call | None, value: Value | None
    ) -> None:
        self.name, self.all_input_nodes, self.target = name, inputs, None
        self.meta: dict[str, Any] = {"val": value}
        if call is not None:
            self.meta["call"] = call


def least_kept(
    captured: Captured, gradients: list[Value]
) -> tuple[list[Value], list[Call], list[Call]]:
    """The values to be kept, the calls that may make them, and those of a backward from there."""
    nodes: list[Any] = []
    by_value: dict[int, Any] = {}

    def enter(name: str, inputs: list[Any], call: Call | None, value: Value | None) -> Any:
        made = _Node(name, inputs, call, value)
        nodes.append(made)
        if value is not None:
            by_value[value.number] = made
        return made

    primals = [enter("input", [], None, one.value) for one in captured.inputs]
    tangents = [enter("tangent", [], None, value) for _, value in captured.tangents]
    for call in captured.calls:
        read = [by_value[one.number] for one in call.inputs]
        made = enter(call.name, read, call, call.results[0] if call.single else None)
        if not call.single:
            for value in call.results:
                enter("getitem", [made], None, value)
    results = [one.value for one in captured.outputs if one.kind == "value"]
    results += [value for _, value in captured.writes]
    results += [value for _, value in captured.stores if value is not None]
    joint = Joint(nodes, primals, tangents, [by_value[one.number] for one in results],
                  [by_value[one.number] for one in gradients])  # fmt: skip
    saved = least(joint, kinds.may_run_twice)
    again = joint.needed(joint.wanted, [*saved, *primals, *tangents])
    ahead = [one.meta["call"] for one in nodes if one not in joint.behind and "call" in one.meta]
    behind = [one.meta["call"] for one in nodes if one in again and "call" in one.meta]
    kept = [one.meta["val"] for one in nodes if one in saved and one not in joint.free]
    return kept, ahead, behind
