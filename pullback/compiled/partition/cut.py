"""What backward keeps of the forward: a minimum cut of the two, taken together as one graph.

Nodes are those of an fx graph, or stand-ins for captured calls (`kept.py`): they have a `name`,
`all_input_nodes` and `meta`.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.partition import config, kinds
from pullback.compiled.partition.network import Network
from pullback.utils.selective_checkpoint import CheckpointPolicy

__all__ = ["SAVED", "Joint", "kept_by_default", "least", "policy_of"]

SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_CPU_OFFLOAD)
_PREFER_SAVED = (CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class Joint:
    """A graph of forward and backward: its nodes, in order, and what they are for."""

    def __init__(self, nodes: list[Any], primals: list[Any], tangents: list[Any],
                 results: Any, gradients: Any) -> None:  # fmt: skip
        self.nodes, self.primals, self.tangents = nodes, primals, tangents
        self.results, self.gradients = results, gradients
        self.free = set(primals)
        behind = set(tangents)
        for node in nodes:
            if any(one in behind for one in node.all_input_nodes):
                behind.add(node)
        self.behind = behind  # reads something that arrives with backward
        self.wanted = {one for one in gradients if one is not None}

    def needed(self, outputs: Any, given: Any) -> set[Any]:
        """The nodes that must run for outputs, where some are given."""
        stop = set(given)
        found: set[Any] = set()
        stack = [one for one in outputs if one is not None]
        while stack:
            node = stack.pop()
            if node in found or node in stop:
                continue
            found.add(node)
            stack += node.all_input_nodes
        return found

    def read_by_backward(self) -> list[Any]:
        """Values without tangents that gradients are made of, directly."""
        needed = self.needed(self.wanted, ())
        read = [one for node in needed & self.behind for one in node.all_input_nodes]
        found = {one for one in (*read, *self.wanted) if one not in self.behind}
        return [node for node in self.nodes if node in found]

    def bytes_of(self, saved: Any) -> int:
        """Memory of saved values, beyond that of inputs."""
        return sum(kinds.bytes_of(one) for one in saved if one not in self.free)


def kept_by_default(joint: Joint) -> list[Any]:
    """All values of the forward that backward reads."""
    ahead = joint.needed(joint.results, ())
    needed = joint.needed(joint.wanted, ())
    # What only gradients need runs in backward, even where no tangent is in it.
    later = {one for one in needed if one in joint.behind or one not in ahead} - joint.free
    later -= set(joint.tangents)
    read = {one for node in later for one in node.all_input_nodes} | joint.wanted
    return [one for one in joint.nodes
            if one in read and one not in later and one not in joint.tangents]  # fmt: skip


def policy_of(node: Any) -> Any:
    """What the user wants done with it: a `CheckpointPolicy`, or None."""
    return node.meta.get("recompute")


def least(joint: Joint, may_run_twice: Any) -> set[Any]:
    """The values to save: a minimum cut between the forward and what backward reads."""
    network = Network()
    source, sink = network.node(), network.node()
    ways: dict[Any, tuple[int, int]] = {}
    read = joint.read_by_backward()
    inside = joint.needed(read, ())
    for node in joint.nodes:
        if node not in inside:
            continue
        ways[node] = begin, end = network.node(), network.node()
        network.edge(begin, end, _price(node, joint))
        for one in node.all_input_nodes:
            network.edge(ways[one][1], begin)
        if node in joint.free or not _can_go(node, may_run_twice):
            network.edge(source, begin)
    for node in read:
        network.edge(ways[node][1], sink)
    near = network.near(source, sink)
    if near is None:  # policies that contradict each other
        raise RuntimeError("No cut keeps to the policies: what must be computed again cannot be.")
    found = {node for node, (begin, end) in ways.items() if begin in near and end not in near}
    usual = kept_by_default(joint)
    # A view is never kept for itself, and what it looks at may be larger.
    return found if joint.bytes_of(found) <= joint.bytes_of(usual) else set(usual)


def _can_go(node: Any, may_run_twice: Any) -> bool:
    """Whether a value may be missing in backward, to be computed again."""
    policy = policy_of(node)
    if policy in SAVED or policy in _PREFER_SAVED:
        return False
    if policy in (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE):
        return not kinds.is_random(node)
    return bool(may_run_twice(node))


def _price(node: Any, joint: Joint) -> float:
    """What keeping a value costs."""
    if node in joint.free:
        return 0
    if policy_of(node) is CheckpointPolicy.MUST_RECOMPUTE:
        return float("inf")
    several = bool(node.meta.get("call") is not None and not node.meta["call"].single)
    if several and node.meta.get("val") is None:
        return float("inf")  # a tuple: its items are values, it is none
    if config.recompute_views and (kinds.is_view(node) or kinds.is_cast(node)):
        inputs = node.all_input_nodes
        if not (len(inputs) == 1 and inputs[0].meta.get("val") is None):  # an item of a tuple
            return float("inf")
    return kinds.bytes_of(node) + 1
