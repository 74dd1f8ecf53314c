"""Torch's surface: what exists only so that torch's import paths work, as `pullback._C`.

And names of other standards: `pullback.array_api`, and NumPy's functions on tensors.

The folder is on the package's path, so nothing is imported by its name.
"""
