"""How often what happened in this process: captures, hits, misses and falls back, with reasons."""

from __future__ import annotations

from collections import Counter, defaultdict

__all__ = ["counters"]

# "compile", "misses", "fallbacks", "errors", "compiled_autograd": what happened -> how often.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
