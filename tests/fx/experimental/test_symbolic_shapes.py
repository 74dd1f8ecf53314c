"""Questions about numbers that might be symbols, which sizes here never are."""

import pytest

import pullback as torch
from pullback.fx.experimental import symbolic_shapes as shapes
from pullback.fx.experimental.proxy_tensor import make_fx


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


# Of graphs, or of anything.
OTHERS = {"fx_placeholder_targets", "fx_placeholder_vals", "is_nested_int"}
OTHERS |= {"free_symbols", "has_free_symbols"}


@pytest.mark.parametrize("name", sorted({*shapes.__all__[1:]} - OTHERS))
def test_what_is_no_number_is_refused(name):
    function = getattr(shapes, name)
    with pytest.raises(
        AssertionError, match="guard_bool" if "or_" in name or "oblivious" in name else name
    ):
        function(*["3"] * (2 if name == "sym_eq" else 1))


def test_inputs_of_a_graph_are_told():
    made = make_fx(lambda x, y: x + y, tracing_mode="fake")(torch.ones(2), torch.ones(1))
    assert shapes.fx_placeholder_targets(made) == ["x_1", "y_1"]
    assert [tuple(one.shape) for one in shapes.fx_placeholder_vals(made)] == [(2,), (1,)]
    assert not shapes.has_free_symbols(made)


def test_the_size_that_differs_from_part_to_part_is_a_nested_one():
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    assert [shapes.is_nested_int(size) for size in nested.shape] == [False, True, False]
