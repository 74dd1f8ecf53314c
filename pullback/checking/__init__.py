"""Programs written for torch: which of its names they use are here, and how they run here.

`pullback check` reads a program or runs it on both; `standing_in` makes `import torch` give
pullback.
"""
