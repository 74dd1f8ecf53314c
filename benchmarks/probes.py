"""Measurements that want a fresh process: a million nodes, memory over many steps, peak memory."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from benchmarks import checkpointing, operator_cost
from benchmarks.memory import peak_bytes
from benchmarks.program import Tensor, has
from benchmarks.works.nets import mlp_training

TRAINING = ("nn.functional.linear", "nn.functional.cross_entropy")
SPARE_OBJECTS = 100  # what the interpreter itself may keep or make in the meantime


@dataclass(frozen=True)
class Probe:
    """A measurement by name; `measure` gets the library and whether to be quick about it."""

    measure: Callable[[ModuleType, bool], dict[str, float]]
    needs: tuple[str, ...] = ()

    def missing_from(self, library: ModuleType) -> list[str]:
        """The needed names that the library does not have."""
        return [name for name in self.needs if not has(library, name)]


def million_nodes(torch: ModuleType, quick: bool) -> dict[str, float]:
    """Build, run and free a long chain; its cost per node, and over that of a chain of a tenth."""
    short, long = (1_000, 10_000) if quick else (100_000, 1_000_000)
    node_cost(torch, short)  # warm
    brief, lengthy = node_cost(torch, short), node_cost(torch, long)
    return {"per_node": lengthy, "growth": lengthy / brief}


def node_cost(torch: ModuleType, nodes: int) -> float:
    """Processor time of a chain's whole life, per node; an error if nodes outlive it."""
    build_chain(torch.tensor(1.0, requires_grad=True), 1).backward()  # loads what is loaded once
    x = torch.tensor(1.0, requires_grad=True)
    gc.collect()
    before = len(gc.get_objects())
    start = time.process_time()
    y = build_chain(x, nodes)
    y.backward()
    del y
    seconds = time.process_time() - start
    if (left := len(gc.get_objects()) - before) > SPARE_OBJECTS:
        raise RuntimeError(f"{left} objects are left of a chain of {nodes} nodes that was dropped")
    return seconds / nodes


def build_chain(x: Tensor, nodes: int) -> Tensor:
    """Add x to itself, one node at a time."""
    y = x
    for _ in range(nodes):
        y = y + x
    return y


def build_growth(torch: ModuleType, quick: bool) -> dict[str, float]:
    """The cost of building a node in a long chain over that in a chain of a thousand.

    With Python's collector, which goes through all nodes whenever there are a quarter more, and
    without it.
    """
    long = 10_000 if quick else 1_000_000
    found = {"collected": build_cost(torch, long, 1) / build_cost(torch, 1_000, 50)}
    gc.disable()
    try:
        found["uncollected"] = build_cost(torch, long, 1) / build_cost(torch, 1_000, 50)
    finally:
        gc.enable()
    return found


def build_cost(torch: ModuleType, nodes: int, times: int) -> float:
    """Processor time of building a chain, per node: the least of some."""
    x = torch.tensor(1.0, requires_grad=True)
    costs = []
    for _ in range(times):
        start = time.process_time()
        y = build_chain(x, nodes)
        costs.append(time.process_time() - start)
        del y
    return min(costs) / nodes


def million_views(torch: ModuleType, quick: bool) -> dict[str, float]:
    """Build a million views of one base, run back through them, free them: as `million_nodes`."""
    short, long = (1_000, 10_000) if quick else (100_000, 1_000_000)
    view_cost(torch, short)  # warm
    brief, lengthy = view_cost(torch, short), view_cost(torch, long)
    return {"per_view": lengthy, "growth": lengthy / brief}


def view_cost(torch: ModuleType, views: int) -> float:
    """Processor time of views all alive at once, per view; an error if one outlives the rest."""
    base = torch.ones(2, 3, requires_grad=True) * 1
    base.t().sum().backward(retain_graph=True)  # loads what is loaded once
    gc.collect()
    before = len(gc.get_objects())
    start = time.process_time()
    alive = [base]
    for _ in range(views // 2):
        alive.append(base.t())  # beside one another, on one memory
        alive.append(alive[-3 if len(alive) > 3 else 0].t())  # and on one another
    alive[-1].sum().backward()
    alive.clear()
    seconds = time.process_time() - start
    if (left := len(gc.get_objects()) - before) > SPARE_OBJECTS:
        raise RuntimeError(f"{left} objects are left of {views} views that were dropped")
    return seconds / views


def flat_memory(torch: ModuleType, quick: bool) -> dict[str, float]:
    """Bytes by which 1000 training steps grow the process, and the traced memory; collector off.

    What is traced is exact, and for a library on NumPy whole: its arrays report themselves.
    """
    steps = 50 if quick else 1000
    step = mlp_training(torch, [16, 32, 32, 4], batch=8).run
    gc.collect()
    gc.disable()
    process = growth(lambda: repeat(step, steps), peak_bytes, warm_up=lambda: repeat(step, steps))
    tracemalloc.start()
    traced = growth(
        lambda: repeat(step, steps),
        lambda: tracemalloc.get_traced_memory()[0],
        warm_up=lambda: repeat(step, 20),
    )
    tracemalloc.stop()
    gc.enable()
    return {"process": process, "traced": traced}


def growth(
    action: Callable[[], None], measure: Callable[[], int], warm_up: Callable[[], None]
) -> float:
    """By how much an action, when warm, raises what is measured."""
    warm_up()
    before = measure()
    action()
    return float(max(measure() - before, 0))


def repeat(step: Callable[[None], Tensor], times: int) -> None:
    """Take so many training steps."""
    for _ in range(times):
        step(None)


def peak_memory(torch: ModuleType, quick: bool) -> dict[str, float]:
    """Bytes that training steps of a wide network add to the peak of the process."""
    width, batch = (128, 256) if quick else (1024, 2048)
    program = mlp_training(torch, [width] * 5 + [10], batch)
    before = peak_bytes()
    repeat(program.run, 3)
    return {"growth": float(peak_bytes() - before)}


PROBES = {
    "million-nodes": Probe(million_nodes),
    "build-growth": Probe(build_growth),
    "million-views": Probe(million_views),
    "flat-memory": Probe(flat_memory, TRAINING),
    "peak-memory": Probe(peak_memory, TRAINING),
    "checkpoint": Probe(checkpointing.checkpoint_cost, checkpointing.NEEDS),
    "operator-cost": Probe(operator_cost.operator_cost, operator_cost.NEEDS),
}
