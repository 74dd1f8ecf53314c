"""placeholder"""
from pullback.testing.cases import Entry
SHAPE: dict[str, Entry] = {}
