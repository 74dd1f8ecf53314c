"""Cuts a joint graph into forward and backward: by what eager would keep, or by least memory.

A joint graph takes `primals_*` and `tangents_*` and gives the forward's results, then gradients.
What backward reads of the forward is saved by it; what is not saved is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pullback.compiled.partition import config, kinds
from pullback.compiled.partition.cut import SAVED, Joint, kept_by_default, least, policy_of

__all__ = ["Partition", "default_partition", "min_cut_rematerialization_partition"]

_BUCKETS = 400  # how finely memory is counted where a budget is shared out


@dataclass
class Partition:
    """What a cut came to: in `meta["partition"]` of both modules."""

    saved: dict[str, int] = field(default_factory=dict)  # name -> bytes held for backward
    recomputed: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)  # saved too, and held by the caller anyway

    @property
    def bytes(self) -> int:
        """Memory held between forward and backward, beyond that of the inputs."""
        return sum(self.saved.values())

    peak: int = 0  # estimate of the most memory that backward needs at a time

    def __str__(self) -> str:
        lines = [f"saved: {self.bytes} bytes in {len(self.saved)} values, "
                 f"{len(self.inputs)} inputs; peak of backward {self.peak} bytes"]  # fmt: skip
        lines += [f"  {name}: {size} bytes" for name, size in self.saved.items()]
        if self.recomputed:
            lines.append(f"computed again: {', '.join(self.recomputed)}")
        return "\n".join(lines)


def _joint_of(module: Any, forward_outputs: int) -> Joint:
    if config.cse:
        _merge_equal(module)
    *nodes, output = module.graph.nodes
    (listed,) = output.args
    held = [one for one in nodes if one.op in ("placeholder", "get_attr")]
    tangents = [one for one in held if one.name.startswith("tangents")]
    primals = [one for one in held if not one.name.startswith("tangents")]
    return Joint(nodes, primals, tangents, listed[:forward_outputs], listed[forward_outputs:])


def _cut(module: Any, joint: Joint, saved: Any) -> tuple[Any, Any]:
    """Forward and backward, where `saved` is what passes between them."""
    chosen = set(saved)
    kept = [one for one in joint.nodes if one in chosen and one.op != "get_attr"]
    primals = [one for one in joint.primals if one.op == "placeholder"]
    forward = _extracted(module, primals, [*joint.results, *kept])
    backward = _extracted(module, [*kept, *joint.tangents], joint.gradients)
    again = joint.needed(joint.wanted, [*kept, *joint.tangents]) & joint.needed(joint.results, ())
    again -= joint.free
    about = Partition(
        {one.name: kinds.bytes_of(one) for one in kept if one not in joint.free},
        [one.name for one in joint.nodes if one in again],
        [one.name for one in kept if one in joint.free],
    )
    about.peak = _peak(backward)
    forward.meta["partition"] = backward.meta["partition"] = about
    return forward, backward


def default_partition(
    joint_module: Any, joint_inputs: Any = (), *, num_fwd_outputs: int, **options: Any
) -> tuple[Any, Any]:
    """Forward runs what its results need; backward gets every value of it that it reads.

    >>> import pullback as torch
    >>> from pullback._functorch.aot_autograd import aot_export_joint_simple
    >>> from pullback._functorch.partitioners import default_partition
    >>> x = torch.ones(3, requires_grad=True)
    >>> joint = aot_export_joint_simple(lambda x: (x.sin(),), (x,), trace_joint=True)
    >>> forward, backward = default_partition(joint, num_fwd_outputs=1)
    >>> [node.name for node in backward.graph.nodes if node.op == "placeholder"]
    ['primals_1', 'tangents_1']
    """
    joint = _joint_of(joint_module, num_fwd_outputs)
    return _cut(joint_module, joint, kept_by_default(joint))


def min_cut_rematerialization_partition(
    joint_module: Any,
    joint_inputs: Any = (),
    compiler: str = "llvm",
    *,
    num_fwd_outputs: int,
    **options: Any,
) -> tuple[Any, Any]:
    """The cut that keeps the fewest bytes for backward; the rest is computed again from them.

    Products, reductions, random and opaque operators are never run twice, views and casts always.
    `config.activation_memory_budget` below 1 drops more of what is kept, the cheapest first.
    """
    joint = _joint_of(joint_module, num_fwd_outputs)
    saved = least(joint, kinds.may_run_twice)
    budget = config.activation_memory_budget
    if not 0 <= budget <= 1:
        raise RuntimeError(f"activation_memory_budget is between 0 and 1, not {budget}.")
    if budget < 1:
        saved = _within_budget(joint, saved, budget)
    return _cut(joint_module, joint, saved)


def _within_budget(joint: Joint, saved: set[Any], budget: float) -> set[Any]:
    """Fewer saved values: those dropped that cost least to compute again for the room they give."""
    must = {
        one for one in saved
        if one in joint.free or kinds.is_random(one) or policy_of(one) in SAVED
    }  # fmt: skip
    items = [one for one in joint.nodes if one in saved and one not in must]
    total = sum(map(kinds.bytes_of, items))
    room = int(budget * total)
    kept = set(_knapsack(joint, items, room, max(total, 1)))
    # What is not kept may now be computed again whatever it is, from what is.
    return least(joint, lambda node: node not in kept and not kinds.is_random(node))


def _knapsack(joint: Joint, items: list[Any], room: int, total: int) -> list[Any]:
    """The items to keep within the room, whose recomputation would cost most."""
    unit = max(total // _BUCKETS, 1)
    places = room // unit
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())] * (places + 1)
    for number, node in enumerate(items):
        size = -(-kinds.bytes_of(node) // unit)
        cost = float(kinds.cost_of(node))
        for place in range(places, size - 1, -1):
            with_it = best[place - size][0] + cost
            if with_it > best[place][0]:
                best[place] = (with_it, (*best[place - size][1], number))
    return [items[number] for number in best[places][1]]


def _extracted(module: Any, inputs: list[Any], outputs: Any) -> Any:
    """A module of the nodes that outputs need, with these inputs."""
    from pullback.fx.graph import Graph
    from pullback.fx.graph_module import GraphModule

    graph = Graph()
    made: dict[Any, Any] = {}
    for one in inputs:
        made[one] = graph.placeholder(one.name)
        made[one].meta = dict(one.meta)
    stop = set(inputs)
    needed: set[Any] = set()
    stack = [one for one in outputs if one is not None]
    while stack:
        node = stack.pop()
        if node not in needed and node not in stop:
            needed.add(node)
            stack += node.all_input_nodes
    for node in module.graph.nodes:
        if node in needed:
            if node.op == "placeholder":
                raise RuntimeError(f"{node.name} is needed on both sides of the cut.")
            made[node] = graph.node_copy(node, lambda one: made[one])
    graph.output(tuple(None if one is None else made[one] for one in outputs))
    return GraphModule(module, graph)


def _peak(module: Any) -> int:
    """The most memory at a time, where every value goes after its last use."""
    nodes = list(module.graph.nodes)
    last = {one: place for place, node in enumerate(nodes) for one in node.all_input_nodes}
    now = most = 0
    for place, node in enumerate(nodes[:-1]):
        now += 0 if kinds.is_view(node) else kinds.bytes_of(node)
        most = max(most, now)
        for one in node.all_input_nodes:
            if last[one] == place and not kinds.is_view(one):
                now -= kinds.bytes_of(one)
    return most


def _merge_equal(module: Any) -> None:
    """Make equal calls of equal arguments one; and drop what nobody reads."""
    known: dict[Any, Any] = {}
    for node in list(module.graph.nodes):
        if node.op != "call_function" or kinds.is_random(node):
            continue
        try:
            key = (node.target, _key(node.args), _key(node.kwargs))
            first = known.setdefault(key, node)
        except TypeError:  # an argument that cannot be compared
            continue
        if first is not node:
            node.replace_all_uses_with(first)
            module.graph.erase_node(node)
    module.recompile()


def _key(tree: Any) -> Any:
    if isinstance(tree, tuple | list):
        return (type(tree), *(_key(one) for one in tree))
    if isinstance(tree, dict):
        return tuple((name, _key(one)) for name, one in tree.items())
    if isinstance(tree, slice):
        return (slice, tree.start, tree.stop, tree.step)
    if isinstance(tree, float):
        return (float, tree.hex())
    return (type(tree), tree)
