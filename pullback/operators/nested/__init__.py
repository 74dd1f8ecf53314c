"""Nested tensors: a batch of tensors that differ in size, without padding.

A `Form` says how elements belong to components and never changes; a `NestedArray` is a form with
values. Of layout torch.jagged the components differ in one dimension and lie in one array, one
behind the other along it (`Jagged`); of the strided layout they lie flat, one after the other, and
may differ in every dimension (`Shapes`). Operators are written on values, which are a dense tensor
with the usual derivatives, between two borders: `values_of` and `from_values`.
"""
