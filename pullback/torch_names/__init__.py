"""Torch's surface: what exists only so that torch's import paths work, as `pullback._C`.

The folder is on the package's path, so nothing is imported by its name.
"""
