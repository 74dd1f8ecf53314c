"""The table of FlopCounterMode."""

from __future__ import annotations

from typing import Any

_SUFFIXES = ("", "K", "M", "B", "T")
_GLOBAL = "Global"
_HEADS = ("Module", "FLOP", "% Total")


def table(counts: dict[str, dict[Any, int]], depth: int) -> str:
    """A line for each module down to a depth, and for each of its operators."""
    total = sum(counts.get(_GLOBAL, {}).values())
    rows: list[tuple[str, str, str]] = []
    names = sorted(name for name in counts if name != _GLOBAL)
    for name in [_GLOBAL, *names]:
        level = 0 if name == _GLOBAL else name.count(".") + 1
        if level > depth:
            continue
        own = counts.get(name, {})
        rows.append(_row("  " * level + name, sum(own.values()), total))
        rows += [_row("  " * level + f" - {op}", flops, total) for op, flops in own.items()]
    return _aligned(rows)


def _row(name: str, flops: int, total: int) -> tuple[str, str, str]:
    share = flops / total if total else 0.0
    return name, _with_suffix(flops, total), f"{share:.2%}"


def _with_suffix(number: int, total: int) -> str:
    """A number in the unit that fits the total, so that a column can be compared.

    >>> _with_suffix(12_345_678, 99_000_000)
    '12.346M'
    """
    power = 0
    while power < len(_SUFFIXES) - 1 and total >= 1000 ** (power + 1):
        power += 1
    return f"{number / 1000**power:.3f}{_SUFFIXES[power]}" if power else str(number)


def _aligned(rows: list[tuple[str, str, str]]) -> str:
    widths = [max(len(row[column]) for row in [_HEADS, *rows]) for column in range(3)]
    lines = [_HEADS, tuple("-" * width for width in widths), *rows]
    return "\n".join(
        f"{name.ljust(widths[0])}  {flops.rjust(widths[1])}  {share.rjust(widths[2])}"
        for name, flops, share in lines
    )
