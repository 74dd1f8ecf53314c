"""Sample inputs of what makes tensors from numbers, or converts them to another dtype."""

from __future__ import annotations

from pullback.testing.cases import Case, Draw, DtypeName, Entry, case, entry, real

DOUBLE = {"dtype": DtypeName("float64")}

# Names of methods that convert; they take a tensor and nothing else.
TO_REAL = ("bool", "byte", "char", "int", "long", "short", "half", "float")
TO_COMPLEX = ("cfloat", "cdouble")


def converted(t: Draw) -> list[Case]:
    """Every sort of number."""
    return [case(t.ints(2, 3)), case(t.fixed(2)), case(t.bools(2)), case(t.ints())]


def converted_to_real(t: Draw) -> list[Case]:
    """Every sort of number but complex ones, whose imaginary part would be lost."""
    return [case(t.ints(2, 3)), real(t.fixed(2)), case(t.bools(2)), case(t.ints())]


CREATION: dict[str, Entry] = {
    "arange": entry(lambda t: [case(5), case(1, 5), case(1, 2.5, 0.5), case(5, 0, -2), case(0)]),
    "linspace": entry(lambda t: [case(0, 1, 5), case(3.0, -2.0, 4, **DOUBLE), case(1, 2, 1)]),
    "logspace": entry(lambda t: [case(0, 1, 5), case(1, 3, 4, base=2.0, **DOUBLE)]),
    "eye": entry(lambda t: [case(3), case(2, 3), case(0), case(2, **DOUBLE)]),
    "full": entry(lambda t: [case((2, 3), 1.5), case((), 2), case((2,), 2, **DOUBLE)]),
    "ones": entry(lambda t: [case(2, 3), case((2, 3)), case(()), case(2, **DOUBLE)]),
    "zeros": entry(lambda t: [case(2, 3), case((2, 3)), case(()), case(2, **DOUBLE)]),
    "scalar_tensor": entry(lambda t: [case(1.5), case(2, **DOUBLE)]),
    "tril_indices": entry(lambda t: [case(3, 3), case(2, 4, 1), case(3, 2, -1)]),
    "triu_indices": entry(lambda t: [case(3, 3), case(2, 4, 1), case(3, 2, -1)]),
    "ones_like": entry(lambda t: [case(t(2, 3)), case(t.ints(2)), case(t(2, 3), **DOUBLE)]),
    "zeros_like": entry(lambda t: [case(t(2, 3)), case(t.ints(2)), case(t(2, 3), **DOUBLE)]),
    "full_like": entry(lambda t: [case(t(2, 3), 2), case(t.ints(2), 3), case(t(2), 1, **DOUBLE)]),
    "Tensor.new_ones": entry(lambda t: [case(t(2), (2, 3)), case(t(2), 3), case(t.ints(2), 2)]),
    "Tensor.new_zeros": entry(lambda t: [case(t(2), (2, 3)), case(t(2), 3), case(t.ints(2), 2)]),
    "Tensor.new_full": entry(lambda t: [case(t(2), (2, 3), 1.5), case(t.ints(2), (2,), 3)]),
    "Tensor.zero_": entry(lambda t: [case(t.fixed(2, 3)), case(t.ints(2))]),
    "fill": entry(lambda t: [case(t(2, 3), 1.5), case(t(2, 3), t()), case(t(), 2)]),
    **{f"Tensor.{name}": entry(converted_to_real) for name in TO_REAL},
    **{f"Tensor.{name}": entry(converted) for name in TO_COMPLEX},
}
