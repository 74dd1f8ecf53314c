"""Tensors from nothing or from what is already there: sizes, ranges, data, other libraries."""
