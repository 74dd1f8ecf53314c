"""Questions about numbers that might be symbols, which sizes here never are."""

import pytest

from pullback.fx.experimental import symbolic_shapes as shapes


def test_numbers_are_what_they_are():
    assert [shapes.is_symbolic(one) for one in (3, 0.5, True)] == [False] * 3
    assert shapes.is_concrete_int(3)
    assert shapes.is_concrete_float(0.5)
    assert shapes.is_concrete_bool(False)
    assert (shapes.guard_int(3), shapes.guard_scalar(0.5)) == (3, 0.5)
    for truth in (True, False):
        assert shapes.guard_bool(truth) is truth
        assert shapes.guard_or_true(truth) is truth
        assert shapes.guard_or_false(truth) is truth
        assert shapes.statically_known_true(truth) is truth
        assert shapes.statically_known_false(truth) is not truth


def test_nested_sizes_are_compared():
    assert shapes.sym_eq((2, [3, 4]), (2, [3, 4]))
    assert not shapes.sym_eq((2, 3), (2, 4))
    assert not shapes.sym_eq((2, 3), (2,))


@pytest.mark.parametrize("name", shapes.__all__[1:])
def test_what_is_no_number_is_refused(name):
    function = getattr(shapes, name)
    with pytest.raises(AssertionError, match=name if "or_" not in name else "guard_bool"):
        function(*["3"] * (2 if name == "sym_eq" else 1))
