"""What a part counted and what it found, as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Report:
    """Counts by outcome; findings by what they have in common, each with one reproduction."""

    part: str
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, tuple[int, str]] = field(default_factory=dict)

    def found(self, what: str, example: str) -> None:
        """Note something that should not be; the first example of each is kept."""
        count, first = self.findings.get(what, (0, example))
        self.findings[what] = (count + 1, first)

    def __str__(self) -> str:
        lines = [f"{self.part} (seed {self.seed})"]
        width = max((len(name) for name in self.counts), default=0)
        lines += [f"  {name:<{width}}  {n:>8,}" for name, n in self.counts.most_common()]
        lines.append(f"  findings: {len(self.findings)}")
        for what, (count, example) in sorted(self.findings.items()):
            lines += [f"  {count:>5} x {what}", f"          {example}"]
        return "\n".join(lines)
