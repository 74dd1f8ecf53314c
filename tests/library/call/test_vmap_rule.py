"""Custom operators under vmap (C-52 to C-55)."""

import numpy as np
import pytest

import pullback as torch
from pullback import Tensor
from pullback.func import vmap
from pullback.library import custom_op, register_vmap


@pytest.fixture
def scale(name):
    @custom_op(name, mutates_args=())
    def op(x: Tensor, by: float = 2.0) -> Tensor:
        return torch.from_numpy(np.asarray(x.numpy() * by))

    return op


def test_rule_gets_whole_batches_and_where_they_are(scale):
    """C-52."""
    seen = []

    @scale.register_vmap
    def rule(info, in_dims, x, by):
        seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape), by))
        return scale(x, by), in_dims[0]

    out = vmap(lambda x: scale(x, 3.0), in_dims=1)(torch.ones(2, 5))
    assert out.shape == (5, 2)
    assert out.flatten().tolist() == [3.0] * 10
    assert seen == [(5, "error", (1, None), (2, 5), 3.0)]


def test_rule_is_registered_by_name_or_definition(scale):
    """C-52."""
    rule = lambda info, in_dims, x: (x * 7, in_dims[0])  # noqa: E731 (registered as a value)
    assert register_vmap(scale._qualname, rule) is rule
    assert vmap(scale)(torch.ones(2)).tolist() == [7, 7]

    @register_vmap(scale)
    def _(info, in_dims, x):
        return x * 8, 0

    assert vmap(scale)(torch.ones(2)).tolist() == [8, 8]

    @scale.register_vmap()
    def _(info, in_dims, x):
        return x * 9, 0

    assert vmap(scale)(torch.ones(2)).tolist() == [9, 9]


def test_out_dims_spread_over_the_output(name):
    """C-52: one int for all, None for what is not batched."""

    @custom_op(name, mutates_args=())
    def op(x: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
        return x * 1, [x * 2, x * 3], torch.ones(4)

    op.register_vmap(lambda info, dims, x: ((x * 1, [x * 2, x * 3], torch.ones(4)), (0, 0, None)))
    a, (b, c), d = vmap(op, out_dims=(0, [0, 0], None))(torch.ones(3))
    assert [t.tolist() for t in (a, b, c)] == [[1] * 3, [2] * 3, [3] * 3]
    assert d.tolist() == [1] * 4


def test_list_arguments_have_a_list_of_dims(name):
    """C-52."""
    seen = []

    @custom_op(name, mutates_args=())
    def total(xs: list[Tensor]) -> Tensor:
        return torch.stack(xs).sum(0)

    @total.register_vmap
    def rule(info, in_dims, xs):
        seen.append(in_dims)
        return xs[0] + xs[1], 0

    out = vmap(lambda x: total([x, torch.ones(())]))(torch.ones(3))
    assert out.tolist() == [2, 2, 2]
    assert seen == [([0, None],)]


def test_keyword_only_arguments_go_by_keyword(name):
    """C-52."""

    @custom_op(name, mutates_args=())
    def op(x: Tensor, *, k: float) -> Tensor:
        return x * k

    op.register_vmap(lambda info, dims, x, *, k: (x * k * 10, 0))
    assert vmap(lambda x: op(x, k=2.0))(torch.ones(2)).tolist() == [20, 20]


def test_rule_is_skipped_where_nothing_is_batched(scale):
    """C-53."""
    calls = []
    scale.register_vmap(lambda info, dims, x: (calls.append(1), x, 0)[1:])
    y = torch.ones(2)
    out = vmap(lambda x: x + scale(y))(torch.zeros(3, 2))
    assert out.tolist() == [[2, 2]] * 3
    assert not calls


def test_nested_vmap_calls_the_rule_for_each_level_innermost_first(scale):
    """C-53."""
    seen = []

    @scale.register_vmap
    def rule(info, in_dims, x):
        seen.append((info.batch_size, tuple(x.shape)))
        return scale(x), in_dims[0]

    out = vmap(vmap(scale))(torch.ones(4, 3, 2))
    assert out.shape == (4, 3, 2)
    assert out.sum().item() == 48
    assert seen == [(3, (3, 2)), (4, (4, 3, 2))]


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda x: x, "two values.*a Tensor"),
        (lambda x: (x, 0, 0), "two values.*tuple of 3"),
        (lambda x: (x, (0, 0)), r"structure \(0, 0\) for an output of structure \*"),
        (lambda x: ((x, x), (0,)), r"structure \(0\) for an output of structure \(\*, \*\)"),
        (lambda x: (x, "0"), "structure '0'"),
    ],
)
def test_malformed_return_of_a_rule_is_told(scale, returned, says):
    """C-54."""
    scale.register_vmap(lambda info, dims, x: returned(x))
    with pytest.raises(RuntimeError, match=says) as caught:
        vmap(scale)(torch.ones(2))
    assert scale._qualname in str(caught.value)


def test_without_a_rule_examples_run_one_by_one_with_one_warning(scale):
    """C-55."""
    with pytest.warns(UserWarning, match=f"{scale._qualname} in a loop"):
        out = vmap(scale, in_dims=1)(torch.ones(2, 3))
    assert out.tolist() == [[2, 2]] * 3
    assert vmap(scale)(torch.ones(2)).tolist() == [2, 2]  # no second warning


def test_loop_stacks_lists_and_several_results(name):
    """C-55."""

    @custom_op(name, mutates_args=())
    def op(xs: list[Tensor]) -> tuple[Tensor, list[Tensor], int]:
        return xs[0] * 1, [xs[1] * 2], len(xs)

    with pytest.warns(UserWarning, match="loop"):
        a, (b,), n = vmap(lambda x: op([x, torch.ones(())]), out_dims=(0, [0], None))(torch.ones(3))
    assert (a.tolist(), b.tolist(), n) == ([1] * 3, [2] * 3, 2)


def test_writes_and_views_are_refused_without_a_rule(name):
    """C-55."""
    write = custom_op(name, lambda x: None, mutates_args=("x",), schema="(Tensor(a!) x) -> ()")
    with pytest.raises(RuntimeError, match="writes to an argument and has no vmap rule"):
        vmap(lambda x: (write(x), x)[1])(torch.ones(2))
    view = custom_op(
        f"{name}v", lambda x: x[:1], mutates_args=(), schema="(Tensor(a) x) -> Tensor(a)"
    )
    with pytest.raises(RuntimeError, match="returns a view and has no vmap rule"):
        vmap(view)(torch.ones(2, 2))


def test_batch_without_examples_needs_a_rule(scale):
    """C-55."""
    with (
        pytest.warns(UserWarning, match="loop"),
        pytest.raises(RuntimeError, match="batch without examples"),
    ):
        vmap(scale)(torch.ones(0, 2))
