"""placeholder"""
from pullback.testing.cases import Entry
NN: dict[str, Entry] = {}
