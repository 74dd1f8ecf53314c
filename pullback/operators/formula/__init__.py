"""Formulas of pointwise operators: written once, from which kernels and derivatives follow.

Machinery (read in this order): `language` (expressions), `words` (what each word is in NumPy and C,
and its slope), `tracing` (a formula run on stand-ins), `declare` (`@pointwise`), `derive` (slopes),
`in_numpy` and `in_c` (the same as source), `kernels` (which of them runs).
"""
