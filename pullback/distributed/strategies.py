"""What a rank needs of memory for a model by each strategy: computed from sizes, nothing is run.

`python -m pullback.distributed.strategies` prints the table of the page on distributed training.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["STRATEGIES", "memory_per_rank", "table"]

STRATEGIES = (
    *("DDP", "ZeRO-1", "fully_shard, kept whole", "fully_shard"),
    *("fully_shard x tensor parallel", "tensor parallel"),
)
_ALWAYS_ONE = ("DDP", "tensor parallel")  # columns for the first number of ranks alone
_TOGETHER = 8  # ranks that share matrices out, of those that shard rows
_MODELS = ((0.1e9, 12), (1e9, 24), (7e9, 32), (70e9, 80))
_RANKS = (8, 64)


def memory_per_rank(
    parameters: float,
    layers: int,
    ranks: int,
    strategy: str,
    *,
    bytes_each: int = 4,
    kept_by_optimizer: int = 2,
) -> float:
    """Bytes of parameters, gradients and optimizer state on one of so many ranks.

    Activations come on top: they are those of the rank's own batch, and no strategy here shares
    them out. `kept_by_optimizer` counts numbers for each parameter: 2 for Adam, 0 for plain SGD.

    >>> from pullback.distributed.strategies import memory_per_rank
    >>> round(memory_per_rank(1e9, 24, 1, "DDP") / 1e9, 1)
    16.0
    >>> round(memory_per_rank(1e9, 24, 8, "fully_shard") / 1e9, 1)
    2.5
    """
    whole = parameters * bytes_each
    layer = whole / layers
    state = kept_by_optimizer * whole
    if strategy == "DDP":
        return whole + whole + state
    if strategy == "ZeRO-1":
        return whole + whole + state / ranks
    part = (whole + whole + state) / ranks
    if strategy == "fully_shard, kept whole":  # reshard_after_forward=False
        return part + whole + layer
    if strategy == "fully_shard":  # a layer, the next one, and the gradient of one
        return part + 3 * layer
    if strategy == "tensor parallel":
        return part
    if strategy == "fully_shard x tensor parallel":
        return part + 3 * layer / min(_TOGETHER, ranks)
    raise ValueError(f"strategy is one of {', '.join(STRATEGIES)}, got {strategy!r}.")


def table(
    models: Sequence[tuple[float, int]] = _MODELS, ranks: Sequence[int] = _RANKS
) -> list[str]:
    """Gigabytes a rank for some models, as lines of a page."""
    columns = [
        (strategy, count)
        for strategy in STRATEGIES
        for count in (ranks[:1] if strategy in _ALWAYS_ONE else ranks)
    ]
    titles = [name if name == "DDP" else f"{name}, {count} ranks" for name, count in columns]
    lines = ["| parameters, layers | " + " | ".join(titles) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for parameters, layers in models:
        cells = [
            f"{memory_per_rank(parameters, layers, count, name) / 1e9:.1f}"
            for name, count in columns
        ]
        lines.append(f"| {parameters / 1e9:g} G, {layers} | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
