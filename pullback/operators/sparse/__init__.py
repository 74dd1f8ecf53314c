"""Sparse tensors: elements that are not zero, and where they are.

A `Pattern` says where (coordinates, or compressed rows or columns of elements or blocks) and never
changes; a `SparseArray` is a pattern with values. Operators are written on the values, which are a
dense tensor with the usual derivatives, between two borders: `values_of` and `from_values`.
"""
