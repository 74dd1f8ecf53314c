"""Captured calls as NumPy source: the same kernels in the same order."""
