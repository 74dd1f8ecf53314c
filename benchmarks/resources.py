"""The rows that are not works: import time, size, memory, a million nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from benchmarks.footprint import import_times, installed_bytes
from benchmarks.process import MissingError, Process, WorkError
from benchmarks.result import Comparison, Result
from benchmarks.rounds import Settings

Rows = dict[str, tuple[str, str]]  # name of a row: its title and unit
Numbers = dict[str, Comparison]

WALL = " by wall time"  # after the name of a row, for its other clock


@dataclass(frozen=True)
class Resource:
    """One measurement, and the rows that it fills."""

    rows: Rows
    measure: Callable[[str | None, str, Settings], Numbers]


def imports(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """Time to import each library, and how much of ours is not NumPy's."""
    libraries = list(dict.fromkeys(filter(None, [theirs, ours, "numpy"])))
    costs = import_times(libraries, rounds=1 if settings.quick else min(settings.rounds, 11))
    numbers = {}
    for suffix, seconds in (("", attrgetter("processor")), (WALL, attrgetter("wall"))):
        times = {library: [seconds(cost) for cost in costs[library]] for library in libraries}
        beyond = [own - numpy for own, numpy in zip(times[ours], times["numpy"], strict=True)]
        numbers["import-time" + suffix] = Comparison(times[theirs] if theirs else [], times[ours])
        numbers["import-beyond-numpy" + suffix] = Comparison([], beyond)
    return numbers


def sizes(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """Bytes on disk, with dependencies."""
    del settings  # nothing varies
    their_bytes = [float(installed_bytes(theirs))] if theirs else []
    return {"installed-size": Comparison(their_bytes, [float(installed_bytes(ours))])}


def nodes(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """A chain of a million nodes: its cost, and that against a chain of a tenth."""
    costs = probe("million-nodes", theirs, ours, settings, times=3)
    return {
        "million-nodes": costs["per_node"],
        "million-nodes-growth": costs["growth"],
    }


def builds(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """What a node costs that is built in a long chain, against one in a short one."""
    costs = probe("build-growth", theirs, ours, settings, times=3)
    return {
        "build-growth": costs["collected"],
        "build-growth-uncollected": costs["uncollected"],
    }


def views(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """A million views of one base: their cost, and that against a tenth of them."""
    costs = probe("million-views", theirs, ours, settings, times=1)
    return {
        "million-views": costs["per_view"],
        "million-views-growth": costs["growth"],
    }


def flatness(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """Memory over a thousand steps."""
    grown = probe("flat-memory", theirs, ours, settings, times=1)
    return {
        # Torch's tensors are not traced, so only ours can be judged so finely.
        "flat-memory": Comparison([], grown["traced"].ours),
        "flat-memory-process": grown["process"],
    }


def peaks(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """Memory of one step."""
    return {"peak-memory": probe("peak-memory", theirs, ours, settings, times=3)["growth"]}


def checkpoints(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """What checkpointing a deep network saves and costs."""
    costs = probe("checkpoint", theirs, ours, settings, times=3)
    return {"checkpoint-memory": costs["memory"], "checkpoint-time": costs["time"]}


def operator_costs(theirs: str | None, ours: str, settings: Settings) -> Numbers:
    """What a user's operator costs over a built-in one."""
    costs = probe("operator-cost", theirs, ours, settings, times=3)
    return {"operator-cost": costs["small"], "operator-cost-tiny": costs["tiny"]}


def probe(name: str, theirs: str | None, ours: str, settings: Settings, times: int) -> Numbers:
    """Ask fresh processes, both libraries in turn, for a probe's numbers."""
    libraries = [ours] if theirs is None else [theirs, ours]
    seen: list[list[dict[str, float]]] = [[] for _ in libraries]
    for _ in range(1 if settings.quick else times):
        for replies, library in zip(seen, libraries, strict=True):
            with Process(library) as process:
                replies.append(process.ask("probe", probe=name, quick=settings.quick))
    ours_seen, theirs_seen = seen[-1], seen[0] if theirs else []
    return {
        key: Comparison([reply[key] for reply in theirs_seen], [reply[key] for reply in ours_seen])
        for key in ours_seen[0]
    }


RESOURCES = {
    "import-time": Resource(
        {
            "import-time": ("import time", "s"),
            "import-beyond-numpy": ("import time beyond NumPy's own", "s"),
        },
        imports,
    ),
    "installed-size": Resource(
        {"installed-size": ("installed size with dependencies", "B")}, sizes
    ),
    "peak-memory": Resource({"peak-memory": ("peak memory of a training step", "B")}, peaks),
    "checkpoint": Resource(
        {
            "checkpoint-memory": ("24 layers checkpointed: peak memory over that without", "x"),
            "checkpoint-time": ("24 layers checkpointed: time of a step over that without", "x"),
        },
        checkpoints,
    ),
    "operator-cost": Resource(
        {
            "operator-cost": ("custom operator over a built-in one, 1000 elements", "x"),
            "operator-cost-tiny": ("the same, 10 elements", "x"),
        },
        operator_costs,
    ),
    "million-nodes": Resource(
        {
            "million-nodes": ("million-node chain: built, run, freed; per node", "s"),
            "million-nodes-growth": ("cost of a node in 1,000,000 over one in 100,000", "x"),
        },
        nodes,
    ),
    "build-growth": Resource(
        {
            "build-growth": ("building a node in 1,000,000 over one in 1,000", "x"),
            "build-growth-uncollected": ("the same with Python's collector off", "x"),
        },
        builds,
    ),
    "million-views": Resource(
        {
            "million-views": ("million views of one base: made, run, freed; per view", "s"),
            "million-views-growth": ("cost of a view among 1,000,000 over one in 100,000", "x"),
        },
        views,
    ),
    "flat-memory": Resource(
        {
            "flat-memory": ("live memory gained over 1000 training steps, collector off", "B"),
            "flat-memory-process": ("the same, of the whole process", "B"),
        },
        flatness,
    ),
}


def measure_resource(
    resource: Resource, theirs: str | None, ours: str, settings: Settings
) -> list[Result]:
    """The rows that one measurement fills, or the reason why it could not."""
    rows = resource.rows.items()
    try:
        numbers = resource.measure(theirs, ours, settings)
    except MissingError as missing:
        return [Result(name, *row, note=str(missing)) for name, row in rows]
    except WorkError as failure:
        return [Result(name, *row, note=str(failure), failed=True) for name, row in rows]
    return [
        Result(name, *row, comparison=numbers[name], wall=numbers.get(name + WALL))
        for name, row in rows
    ]
