"""Selective activation checkpointing: what is kept, what runs again, what is refused."""

import functools

import pytest

import pullback as torch
from pullback.utils.checkpoint import checkpoint
from pullback.utils.selective_checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from tests.operators.dispatch.listening import Log

aten = torch.ops.aten


def run(function, x, policy, **options):
    """The region under a policy."""
    contexts = functools.partial(create_selective_checkpoint_contexts, policy, **options)
    return checkpoint(function, x, use_reentrant=False, context_fn=contexts)


def region(x):
    return ((x @ x).sin() @ x).cos()


@pytest.fixture
def x():
    return torch.linspace(-1, 1, 9).reshape(3, 3).clone().requires_grad_()


def reference(function, x):
    return torch.autograd.grad(function(x).sum(), x)[0]


def test_names_are_found_beside_checkpoint():
    """G-97."""
    for name in (
        "create_selective_checkpoint_contexts",
        "CheckpointPolicy",
        "SelectiveCheckpointContext",
        "SAC_IGNORED_OPS",
    ):
        assert hasattr(torch.utils.checkpoint, name)


@pytest.mark.parametrize(
    "policy",
    [
        [],
        [aten.mm.default],
        [aten.mm.default, aten.sin.default, aten.cos.default],
        lambda ctx, op, *args, **kwargs: True,
        lambda ctx, op, *args, **kwargs: False,
        lambda ctx, op, *args, **kwargs: CheckpointPolicy.PREFER_SAVE,
        lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_RECOMPUTE,
        lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_CPU_OFFLOAD,
    ],
)
def test_gradients_are_those_of_a_plain_run(x, policy):
    """G-97, G-98."""
    y = run(region, x, policy)
    assert torch.equal(y, region(x))
    y.sum().backward()
    assert torch.allclose(x.grad, reference(region, x))


def test_listed_operators_do_not_run_again(x):
    """G-97, G-100."""
    y = run(region, x, [aten.mm.default])
    with Log() as log:
        y.sum().backward()
    plain = run(region, x, [])
    with Log() as again:
        plain.sum().backward()
    assert again.seen.count("aten.mm.default") - log.seen.count("aten.mm.default") == 2
    assert again.seen.count("aten.sin.default") == log.seen.count("aten.sin.default")


@pytest.mark.parametrize("item", [3, "aten.mm", torch.add, aten.mm])
def test_list_takes_overloads_only(item):
    """G-97."""
    with pytest.raises(ValueError, match="no operator overload"):
        create_selective_checkpoint_contexts([item])


def test_packet_in_the_list_is_told_of_its_overloads():
    """G-97."""
    with pytest.raises(ValueError, match=r"aten\.mm\.default"):
        create_selective_checkpoint_contexts([aten.mm])


@pytest.mark.parametrize("policy", [3, "all", (aten.mm.default,), None])
def test_policy_is_a_function_or_a_list(policy):
    """G-97."""
    with pytest.raises(TypeError, match="policy_fn_or_list"):
        create_selective_checkpoint_contexts(policy)


def test_policies_have_torchs_numbers():
    """G-98."""
    assert [policy.value for policy in CheckpointPolicy] == [0, 1, 2, 3, 4, 5]
    assert CheckpointPolicy.MUST_SAVE.value == 0
    assert CheckpointPolicy.PREFER_RECOMPUTE.value == 3


def test_policy_must_decide(x):
    """G-98."""
    with pytest.raises(TypeError, match="CheckpointPolicy or a bool"):
        run(region, x, lambda ctx, op, *args, **kwargs: "yes")


def test_policy_is_asked_after_each_operator_of_the_first_run_only(x):
    """G-99."""
    asked = []

    def policy(ctx, op, *args, **kwargs):
        assert isinstance(ctx, SelectiveCheckpointContext)
        assert not ctx.is_recompute
        assert isinstance(ctx.op_output, torch.Tensor)
        assert not ctx.op_output.requires_grad
        asked.append((str(op), len(args)))
        return op is aten.mm.default

    y = run(region, x, policy)
    forward = [
        ("aten.mm.default", 2),
        ("aten.sin.default", 1),
        ("aten.mm.default", 2),
        ("aten.cos.default", 1),
    ]
    assert asked == forward
    y.sum().backward()
    assert asked == forward


def test_kept_results_come_in_order_of_their_operator(x):
    """G-100."""

    def twice(x):
        return (x.exp() * x.sin()).exp() * x.exp()

    y = run(twice, x, [aten.exp.default])
    y.sum().backward()
    assert torch.allclose(x.grad, reference(twice, x))


def test_kept_views_stand_on_their_own(x):
    """G-100."""

    def viewed(x):
        y = x * 2
        return (y.t() * y).exp()

    y = run(viewed, x, [aten.t.default])
    y.sum().backward()
    assert torch.allclose(x.grad, reference(viewed, x))


def test_detach_is_never_asked_about(x):
    """G-100."""
    asked = []

    def detached(x):
        return x.sin() * x.detach()

    def policy(ctx, op, *args, **kwargs):
        asked.append(op)
        return True

    run(detached, x, policy).sum().backward()
    assert asked == [aten.sin.default, aten.mul.Tensor]
    assert aten.detach.default in SAC_IGNORED_OPS


def test_writes_happen_again_though_the_policy_would_keep_them(x):
    def written(x):
        y = x * 2
        y.mul_(x)
        return (y @ x).sin()

    y = run(written, x, [aten.mul_.Tensor, aten.mm.default])
    y.sum().backward()
    assert torch.allclose(x.grad, reference(written, x))


def test_operator_that_did_not_run_before_is_named(x):
    """G-101."""
    runs = []

    def changing(x):
        runs.append(1)
        y = x @ x
        return (y.sin() if len(runs) == 1 else y.exp()).cos()

    y = run(changing, x, [aten.mm.default])
    with pytest.raises(RuntimeError, match=r"aten\.exp\.default.*randomness or global state"):
        y.sum().backward()


def test_second_backward_is_refused(x):
    """G-101."""
    y = run(region, x, [aten.mm.default])
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only once"):
        y.sum().backward()


def test_kept_result_that_was_written_is_refused_unless_allowed(x):
    """G-101."""

    def writing(x):
        y = x @ x
        z = y.sin()
        with torch.no_grad():
            y.add_(1)
        return z.cos()

    y = run(writing, x, [aten.mm.default])
    with pytest.raises(RuntimeError, match=r"changed in place since.*allow_cache_entry_mutation"):
        y.sum().backward()
    run(writing, x, [aten.mm.default], allow_cache_entry_mutation=True).sum().backward()


def test_dropout_draws_the_same_numbers_in_the_second_run(x):
    def dropped(x):
        return torch.nn.functional.dropout((x @ x).sin(), 0.5).exp()

    torch.manual_seed(3)
    expected = reference(dropped, x)
    torch.manual_seed(3)
    run(dropped, x, [aten.mm.default]).sum().backward()
    assert torch.allclose(x.grad, expected)
