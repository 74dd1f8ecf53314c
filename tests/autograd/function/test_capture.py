"""What a captured backward asks of a Function's node (F-113 to F-117)."""

import pytest

import pullback as torch
from pullback.autograd.function import Function, capture
from pullback.autograd.graph import saved_tensors_hooks
from tests.leaves import double_leaf as leaf


class Scale(Function):
    @staticmethod
    def forward(ctx, x, w, k):
        ctx.save_for_backward(w, None)
        ctx.k = k
        return x * w * k

    @staticmethod
    def backward(ctx, g):
        w, _ = ctx.saved_tensors
        return g * w * ctx.k, None, None


def test_key_names_the_class_and_may_lift_sizes():
    """F-113."""
    node = Scale.apply(leaf(1.0), torch.ones(1), 3).grad_fn
    assert capture.key(node) == (Scale._backward_cls._autograd_function_id,)
    assert node._get_compiled_autograd_symints() == ()

    class Sized(Scale):
        @staticmethod
        def _compiled_autograd_key(ctx):
            return (ctx._autograd_function_id, ctx.k)

    node = Sized.apply(leaf(1.0), torch.ones(1), 3).grad_fn
    assert node._get_compiled_autograd_symints() == (3,)

    class Wrong(Scale):
        @staticmethod
        def _compiled_autograd_key(ctx):
            return [1]

    with pytest.raises(RuntimeError, match=r"Wrong\._compiled_autograd_key"):
        capture.key(Wrong.apply(leaf(1.0), torch.ones(1), 3).grad_fn)


def test_signature_tells_programs_apart():
    """F-114."""

    class Other(Scale):
        pass

    class Silent(Scale):
        @staticmethod
        def forward(ctx, x, w, k):
            ctx.set_materialize_grads(False)
            return Scale.forward(ctx, x, w, k)

    def signature(function, x, w, k=3):
        return capture.signature(function.apply(x, w, k).grad_fn)

    plain = signature(Scale, leaf(1.0), torch.ones(1))
    assert plain == signature(Scale, leaf(5.0), torch.zeros(1), 9)
    assert hash(plain) is not None
    assert plain != signature(Other, leaf(1.0), torch.ones(1))
    assert plain != signature(Silent, leaf(1.0), torch.ones(1))
    assert plain != signature(Scale, leaf(1.0, 2.0), torch.ones(1))
    assert plain != signature(Scale, leaf(1.0), leaf(1.0))
    assert plain != signature(Scale, leaf(1.0), torch.ones(1, dtype=torch.float64))


def test_saved_tensors_are_inputs_and_the_rest_is_read_afresh():
    """F-115."""
    with saved_tensors_hooks(lambda t: t.numpy() * 10, torch.tensor):
        node = Scale.apply(leaf(1.0), torch.ones(1).double(), 3).grad_fn
    saved = capture.lifted(node)
    assert saved[0].tolist() == [10.0]
    other = (torch.full((1,), 100.0).double(), None)
    g = torch.ones(1).double()
    assert capture.run(node, other, g)[0].tolist() == [300.0]
    node.k = 4
    assert capture.run(node, saved, g)[0].tolist() == [40.0]
    assert capture.lifted(node)[0].tolist() == [10.0]


def test_results_are_predicted_and_checked():
    """F-116."""
    answers = []

    class Wide(Scale):
        @staticmethod
        def backward(ctx, g):
            return answers.pop(0)(g)

    node = Wide.apply(leaf(1.0, 2.0), torch.ones(1), 3).grad_fn
    assert [size and size[0] for size in capture.predicted(node)] == [(2,), None]
    g = torch.ones(2).double()
    answers.append(lambda g: (g.expand(3, 2), None, None))
    assert capture.run(node, (), g)[0].tolist() == [3.0, 3.0]
    answers.extend([lambda g: g, lambda g: (g.sum(), None, None), lambda g: (1, None, None)])
    while answers:
        with pytest.raises(RuntimeError, match="WideBackward"):
            capture.run(node, (), g)


def test_backward_state_is_set_once():
    """F-117."""
    node = Scale.apply(leaf(1.0), torch.ones(1), 3).grad_fn
    assert node._compiled_autograd_backward_state is None
    node._compiled_autograd_backward_state = "state"
    assert node._compiled_autograd_backward_state == "state"
    with pytest.raises(RuntimeError, match="once"):
        node._compiled_autograd_backward_state = "again"
