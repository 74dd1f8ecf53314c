"""Backward passes that a compiled function runs itself, and what they meet at tensors outside."""

import pytest
from pullback._dynamo import explain

import pullback as torch


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def by_backward(w, x):
    (w * x).sum().backward()
    return w.grad.clone()


def by_grad(w, x):
    return torch.autograd.grad((w * x).sum(), w)[0]


def _hook(w):
    return w.register_hook(lambda g: g * 10)


def _hook_of_accumulator(w):
    node = w.expand_as(w).grad_fn.next_functions[0][0]
    w.kept = node
    return node.register_prehook(lambda grads: (grads[0] * 10,))


def _hook_after(w):
    def scaled(p):
        p.grad.mul_(10)

    return w.register_post_accumulate_grad_hook(scaled)


@pytest.mark.parametrize("hook", [_hook, _hook_of_accumulator, _hook_after])
@pytest.mark.parametrize("function", [by_backward, by_grad])
@pytest.mark.parametrize("registered", ["before", "between"])
def test_hooks_on_leaves_see_gradients_of_compiled_steps(function, hook, registered):
    results = []
    for run in (function, torch.compile(function)):
        w, x = leaf(), torch.ones(3)
        found = []
        handle = hook(w) if registered == "before" else None
        for n in range(4):
            if n == 2 and registered == "between":
                handle = hook(w)
            w.grad = None
            found.append(run(w, x).tolist())
        handle.remove()
        w.grad = None
        found.append(run(w, x).tolist())
        results.append(found)
    assert results[0] == results[1]


@pytest.mark.parametrize("function", [by_backward, by_grad])
def test_a_pass_goes_on_into_the_history_of_a_tensor_from_outside(function):
    for run in (function, torch.compile(function)):
        w = leaf()
        y = w * 2
        y.retain_grad()
        assert run(y, torch.ones(3)).tolist() == [1.0, 1.0, 1.0]
        assert (w.grad is None) == (function is by_grad)


def test_a_program_made_for_a_leaf_is_not_used_for_a_tensor_with_a_history():
    def step(w, x):
        (w * x).sum().backward()
        return x + 1

    compiled, x = torch.compile(step), torch.ones(3)
    w = leaf()
    for _ in range(3):
        compiled(w, x)
    assert w.grad.tolist() == [3.0, 3.0, 3.0]
    compiled(w * 2, x)
    assert w.grad.tolist() == [5.0, 5.0, 5.0]


def test_hooks_do_not_keep_a_function_without_passes_from_being_captured():
    w = leaf()
    _hook(w)
    function = torch.compile(lambda w, x: w * x)
    assert explain(lambda w, x: w * x)(w, torch.ones(3)).graph_count == 1
    for _ in range(2):
        w.grad = None
        function(w, torch.ones(3)).sum().backward()
        assert w.grad.tolist() == [10.0, 10.0, 10.0]


@pytest.mark.parametrize("accumulated", [False, True])
def test_a_result_whose_history_the_function_used_up_is_captured(accumulated):
    def step(w, x):
        loss = (w * x).square().sum()
        if accumulated:
            loss.backward()
        else:
            torch.autograd.grad(loss, w)
        return loss

    w, x = leaf(), torch.ones(3)
    w.grad = torch.zeros(3)
    assert explain(step)(w, x).graph_count == 1
    loss = torch.compile(step)(w, x)
    with pytest.raises(RuntimeError, match="freed inside it"):
        loss.backward()
