"""Eager kernels as machine code: what `operators/arrays/native.py` asks for."""
