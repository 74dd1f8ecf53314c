"""Kernels over an array namespace: arrays in, arrays out, no tensors, no history.

`blocks` goes through large arrays in pieces that stay in cache, `rows` adds rows up by BLAS,
`scatter` is where all adjoints of indexing end, `lapack` is the way to NumPy's own kernels and
`scipy_special` to SciPy's functions. Kernels of one family alone stay with that family. Imports
core and nothing else of ours.
"""
