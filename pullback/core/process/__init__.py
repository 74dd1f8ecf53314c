"""What holds for the whole process: first use under a lock, contexts entered whole, warnings.

Also what programs may state (`checks`, `determinism`), the modules of torch that are refused, and
files from one process to the next (`own_files`, `texts`).
Imports NumPy at most; start at `whole`, on which every context of the package stands.
"""
