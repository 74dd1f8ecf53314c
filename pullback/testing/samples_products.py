"""placeholder"""
from pullback.testing.cases import Entry
PRODUCTS: dict[str, Entry] = {}
