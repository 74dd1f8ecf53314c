"""What a job of many ranks would take: costs of all-reduce by latency and bandwidth, computed.

A message of n bytes takes `latency + n / bandwidth`. The best of three algorithms is taken: ring,
binary tree, and Rabenseifner's (halving, then doubling). Nothing is run.

    python -m pullback.distributed.simulate --megabytes 100 --seconds 0.3
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["ALGORITHMS", "Job", "Network", "all_reduce_seconds", "main", "plot", "table"]

_FIRST_BUCKET = 1 << 20
_BACKWARD = 2 / 3  # of a step's computing


@dataclass(frozen=True)
class Network:
    """How long messages take, in seconds and bytes per second; ranks differ by `jitter`."""

    latency: float = 30e-6
    bandwidth: float = 1.1e9
    jitter: float = 0.01


def _ring(size: float, ranks: int, network: Network) -> float:
    return 2 * (ranks - 1) * (network.latency + size / ranks / network.bandwidth)


def _tree(size: float, ranks: int, network: Network) -> float:
    return 2 * math.ceil(math.log2(ranks)) * (network.latency + size / network.bandwidth)


def _rabenseifner(size: float, ranks: int, network: Network) -> float:
    rounds = math.ceil(math.log2(ranks))
    return 2 * rounds * network.latency + 2 * (ranks - 1) / ranks * size / network.bandwidth


ALGORITHMS: dict[str, Callable[[float, int, Network], float]] = {
    "ring": _ring,
    "tree": _tree,
    "rabenseifner": _rabenseifner,
}


def all_reduce_seconds(
    size: float, ranks: int, network: Network, algorithm: str | None = None
) -> float:
    """Seconds of one all-reduce of `size` bytes, by one algorithm or the best.

    >>> from pullback.distributed.simulate import Network, all_reduce_seconds
    >>> round(all_reduce_seconds(1e6, 2, Network(latency=0.0, bandwidth=1e6)), 3)
    1.0
    """
    if ranks < 1:
        raise ValueError(f"There must be 1 rank or more, got {ranks}.")
    if ranks == 1:
        return 0.0
    if algorithm is not None:
        return ALGORITHMS[algorithm](size, ranks, network)
    return min(cost(size, ranks, network) for cost in ALGORITHMS.values())


@dataclass(frozen=True)
class Job:
    """One rank's step: its gradients in bytes, its computing in seconds, its buckets in bytes."""

    size: float
    seconds: float
    bucket: float = 25 * (1 << 20)

    def buckets(self) -> list[float]:
        """Sizes of the buckets, in the order in which they leave."""
        left = self.size
        sizes: list[float] = []
        while left > 0:
            sizes.append(min(left, self.bucket if sizes else _FIRST_BUCKET))
            left -= sizes[-1]
        return sizes

    def step(self, ranks: int, network: Network, *, overlap: bool) -> float:
        """Seconds of a step on so many ranks, of which each has a batch of its own."""
        slowest = self.seconds
        if ranks > 1:  # the expected maximum of so many normal deviations
            slowest *= 1 + network.jitter * math.sqrt(2 * math.log(ranks))
        costs = [all_reduce_seconds(size, ranks, network) for size in self.buckets()]
        if not overlap:
            return slowest + sum(costs)
        start = slowest * (1 - _BACKWARD)
        done = sent = 0.0
        for size, cost in zip(self.buckets(), costs, strict=True):
            done += size
            ready = start + slowest * _BACKWARD * done / self.size
            sent = max(sent, ready) + cost
        return max(slowest, sent)

    def efficiency(self, ranks: int, network: Network, *, overlap: bool) -> float:
        """Seconds on one rank over those on so many: 1 is perfect."""
        return self.seconds / self.step(ranks, network, overlap=overlap)


_RANKS = (2, 4, 16, 64, 256, 1024, 4096)


def table(job: Job, network: Network, ranks: Sequence[int] = _RANKS) -> str:
    """Efficiencies by number of ranks, with messages that leave early and at the end."""
    lines = ["ranks   all-reduce   early   at the end"]
    for count in ranks:
        cost = sum(all_reduce_seconds(size, count, network) for size in job.buckets())
        early = job.efficiency(count, network, overlap=True)
        late = job.efficiency(count, network, overlap=False)
        lines.append(f"{count:5d} {cost * 1e3:9.1f} ms {early:7.2f} {late:12.2f}")
    return "\n".join(lines)


def plot(job: Job, network: Network, ranks: Sequence[int] = _RANKS, width: int = 50) -> str:
    """The same as bars: `#` where messages leave at the end, `+` what leaving early gains."""
    lines = []
    for count in ranks:
        late = round(width * job.efficiency(count, network, overlap=False))
        early = round(width * job.efficiency(count, network, overlap=True))
        lines.append(f"{count:5d} |{'#' * late}{'+' * max(0, early - late)}")
    lines.append("      +" + "-" * width + " 1.0")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table and a plot."""
    parser = argparse.ArgumentParser(prog="python -m pullback.distributed.simulate")
    parser.add_argument("--megabytes", type=float, default=100.0, help="gradients of one rank")
    parser.add_argument("--seconds", type=float, default=0.3, help="computing of one step")
    parser.add_argument("--latency", type=float, default=30e-6, help="seconds of a message")
    parser.add_argument("--bandwidth", type=float, default=1.1e9, help="bytes per second")
    parser.add_argument("--jitter", type=float, default=0.01, help="by which ranks differ")
    given = parser.parse_args(arguments)
    job = Job(given.megabytes * 1e6, given.seconds)
    network = Network(given.latency, given.bandwidth, given.jitter)
    print(table(job, network))
    print()
    print(plot(job, network))


if __name__ == "__main__":
    main()
