"""Insight: which of torch's names a program uses are here, and how it runs here.

`pullback check` reads a program or runs it on both; `standing_in` makes `import torch` give
pullback.
"""
