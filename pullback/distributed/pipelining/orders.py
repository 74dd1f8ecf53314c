"""In which order a rank computes: forward and backward, of which stage and microbatch.

Sends never wait, so an order cannot hang as long as what each step needs is computed before it,
here or elsewhere; the tests walk through the orders of many sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Step", "gpipe", "interleaved", "looped_bfs", "one_forward_one_backward"]


class Step(NamedTuple):
    """Forward or backward of a microbatch through a stage."""

    forward: bool
    stage: int
    microbatch: int


def gpipe(stage: int, stages: int, microbatches: int) -> list[Step]:
    """All forwards, then all backwards.

    >>> "".join("BF"[step.forward] for step in gpipe(0, 2, 3))
    'FFFBBB'
    """
    return [Step(forward, stage, n) for forward in (True, False) for n in range(microbatches)]


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> list[Step]:
    """As many forwards as there are stages behind, then one backward after each forward.

    So no more microbatches are kept than there are stages.

    >>> "".join("BF"[step.forward] for step in one_forward_one_backward(0, 2, 3))
    'FFBFBB'
    """
    ahead = min(stages - stage - 1, microbatches)
    steps = [Step(forward=True, stage=stage, microbatch=n) for n in range(ahead)]
    for n in range(microbatches):
        if n + ahead < microbatches:
            steps.append(Step(forward=True, stage=stage, microbatch=n + ahead))
        steps.append(Step(forward=False, stage=stage, microbatch=n))
    return steps


def looped_bfs(rank: int, ranks: int, local: int, microbatches: int) -> list[Step]:
    """All microbatches through one stage after the other, and back.

    >>> [(step.stage, step.microbatch) for step in looped_bfs(0, 2, 2, 2)][:4]
    [(0, 0), (0, 1), (2, 0), (2, 1)]
    """
    places = [rank + ranks * number for number in range(local)]
    forward = [
        Step(forward=True, stage=s, microbatch=n) for s in places for n in range(microbatches)
    ]
    return forward + [step._replace(forward=False) for step in reversed(forward)]


def interleaved(rank: int, ranks: int, local: int, microbatches: int) -> list[Step]:
    """1F1B of several stages a rank: rounds of microbatches go through one stage after the other.

    >>> steps = interleaved(1, 2, 2, 2)
    >>> [(step.stage, step.microbatch) for step in steps if step.forward]
    [(1, 0), (1, 1), (3, 0), (3, 1)]
    """
    rounds = max(1, microbatches // ranks)
    in_round = microbatches // rounds
    if microbatches % rounds:
        raise ValueError(
            f"Interleaved 1F1B: {microbatches} microbatches do not part into {rounds} equal "
            f"rounds for {ranks} ranks; a multiple of {ranks} does."
        )
    total = local * microbatches
    ahead = min((local - 1) * in_round + 2 * (ranks - 1 - rank), total)
    forwards = _in_rounds(rank, ranks, list(range(local)), in_round, total)
    backwards = _in_rounds(rank, ranks, list(reversed(range(local))), in_round, total)
    steps = [Step(forward=True, stage=s, microbatch=n) for s, n in _first(forwards, ahead)]
    for stage, number in backwards:
        if (coming := next(forwards, None)) is not None:
            steps.append(Step(True, *coming))
        steps.append(Step(forward=False, stage=stage, microbatch=number))
    return steps


def _in_rounds(
    rank: int, ranks: int, local: list[int], in_round: int, total: int
) -> Iterator[tuple[int, int]]:
    """Stage and microbatch, a round through each local stage, until all have been through all."""
    seen: Counter[int] = Counter()
    for step in range(total):
        stage = rank + ranks * local[step // in_round % len(local)]
        yield stage, seen[stage]
        seen[stage] += 1


def _first(steps: Iterator[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    return [next(steps) for _ in range(count)]
