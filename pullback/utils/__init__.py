"""Utilities under torch's module names."""
