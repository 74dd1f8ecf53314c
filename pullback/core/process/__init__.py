"""What holds for the whole process: first use under a lock, contexts entered whole, warnings.

Also what programs may state (`checks`, `determinism`) and the modules of torch that are refused.
Imports NumPy at most; start at `whole`, on which every context of the package stands.
"""
