"""placeholder"""
from pullback.testing.cases import Entry
INDEXING: dict[str, Entry] = {}
