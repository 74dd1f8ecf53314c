"""The base class: hooks, groups, copies, zero_grad, optimizers of users."""

import copy
import gc
import pickle
import weakref

import pytest

import pullback as torch
from pullback.optim import optimizer as base


def leaf(*shape):
    return torch.ones(*shape or (2,), requires_grad=True)


def with_gradient(p):
    p.grad = torch.ones_like(p)
    return p


def test_step_hooks_run_around_the_step_the_global_ones_outside():
    p = with_gradient(leaf())
    optimizer = torch.optim.SGD([p], lr=1.0)
    seen = []

    def noting(word):
        return lambda one, args, kwargs: seen.append((word, one is optimizer, p.detach()[0].item()))

    handles = [
        optimizer.register_step_pre_hook(noting("pre")),
        optimizer.register_step_post_hook(noting("post")),
        base.register_optimizer_step_pre_hook(noting("global pre")),
        base.register_optimizer_step_post_hook(noting("global post")),
    ]
    try:
        optimizer.step()
    finally:
        for handle in handles:
            handle.remove()
    optimizer.step()
    words = ["global pre", "pre", "post", "global post"]
    assert seen == [(word, True, 1.0 if "pre" in word else 0.0) for word in words]


def test_a_pre_hook_can_replace_the_arguments():
    optimizer = torch.optim.SGD([leaf()])
    optimizer.register_step_pre_hook(lambda one, args, kwargs: ((one, lambda: 5.0), {}))
    assert optimizer.step() == 5.0


def test_a_pre_hook_that_returns_anything_else_is_refused_before_the_step():
    p = with_gradient(leaf())
    optimizer = torch.optim.SGD([p])
    optimizer.register_step_pre_hook(lambda one, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="returned 3"):
        optimizer.step()
    assert p.tolist() == [1.0, 1.0]


def test_hooks_work_on_optimizers_of_users_and_their_steps():
    class Mine(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        def step(self, closure=None):
            return "stepped"

    optimizer = Mine([leaf()])
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    assert optimizer.step() == "stepped"
    assert seen == [1]


def test_wrappers_that_skip_init_can_clear_gradients_and_be_scheduled():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner
            self.param_groups = inner.param_groups

        def step(self, closure=None):
            return self.inner.step(closure)

    p = with_gradient(leaf())
    wrapper = Wrapper(torch.optim.SGD([p], lr=1.0))
    schedule = torch.optim.lr_scheduler.StepLR(wrapper, 1)
    wrapper.step()
    schedule.step()
    wrapper.zero_grad()
    assert p.tolist() == [0.0, 0.0]
    assert p.grad is None
    assert wrapper.inner.param_groups[0]["lr"] == 0.1


def test_state_dict_hooks_see_and_replace_what_is_written_and_read():
    optimizer = torch.optim.SGD([leaf()], lr=0.1)
    seen = []
    optimizer.register_state_dict_pre_hook(lambda one: seen.append("before writing"))
    optimizer.register_state_dict_post_hook(lambda one, made: {**made, "more": 1})
    optimizer.register_state_dict_post_hook(lambda one, made: seen.append(sorted(made)))
    optimizer.register_load_state_dict_pre_hook(
        lambda one, given: {**given, "param_groups": [{**given["param_groups"][0], "lr": 9.0}]}
    )
    optimizer.register_load_state_dict_post_hook(lambda one: seen.append("last"))
    optimizer.register_load_state_dict_post_hook(lambda one: seen.append("first"), prepend=True)
    optimizer.load_state_dict(optimizer.state_dict())
    names = ["more", "param_groups", "state"]
    assert seen == ["before writing", names, "first", "last"]
    assert optimizer.param_groups[0]["lr"] == 9.0


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_forgets_or_fills(set_to_none):
    p, q = with_gradient(leaf()), leaf()
    kept = p.grad
    torch.optim.SGD([p, q]).zero_grad(set_to_none)
    assert (p.grad is None) == set_to_none
    assert kept.tolist() == ([1.0, 1.0] if set_to_none else [0.0, 0.0])
    assert q.grad is None


def test_zero_grad_takes_a_recorded_gradient_out_of_its_graph():
    p = leaf()
    (g,) = torch.autograd.grad((p**3).sum(), p, create_graph=True)
    p.grad = g
    torch.optim.SGD([p]).zero_grad(set_to_none=False)
    assert p.grad.grad_fn is None
    assert p.grad.tolist() == [0.0, 0.0]


def test_required_options_must_be_given_by_each_group():
    defaults = {"lr": base.required}
    with pytest.raises(ValueError, match="lr"):
        torch.optim.Optimizer([leaf()], defaults)
    optimizer = torch.optim.Optimizer([{"params": leaf(), "lr": 2.0}], defaults)
    assert optimizer.param_groups[0]["lr"] == 2.0
    assert repr(base.required) == "<required parameter>"


def test_a_group_that_is_no_dict_is_refused():
    with pytest.raises(TypeError, match="list"):
        torch.optim.SGD([leaf()]).add_param_group([leaf()])


def test_without_a_step_of_its_own_a_class_says_so():
    with pytest.raises(NotImplementedError, match="Optimizer"):
        torch.optim.Optimizer([leaf()], {}).step()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_continue_by_themselves(copied):
    p, q = with_gradient(leaf()), with_gradient(leaf(3))
    optimizer = torch.optim.Adam([p, q], lr=0.1)
    optimizer.step()
    other = copied(optimizer)
    mine = other.param_groups[0]["params"][0]
    assert mine is not p
    mine.grad = torch.ones(2)
    other.step()
    assert p.tolist() == pytest.approx([0.9, 0.9])
    assert mine.tolist() == pytest.approx([0.8, 0.8])
    assert optimizer.state[p]["step"].item() == 1
    assert other.state[mine]["step"].item() == 2
    assert repr(other) == repr(optimizer)


def test_a_deep_copied_optimizer_keeps_no_schedulers_wrapper():
    optimizer = torch.optim.SGD([leaf()])
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert "step" not in vars(copy.deepcopy(optimizer))


def test_closures_run_with_grad_and_return_the_loss():
    p = leaf()
    optimizer = torch.optim.Adam([p])

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert p.tolist() == pytest.approx([0.999, 0.999])


def test_an_optimizer_can_step_inside_backward():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    before = [p.detach().clone() for p in model.parameters()]
    optimizers = {p: torch.optim.Adam([p], lr=0.1) for p in model.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    model(torch.ones(2, 3)).sum().backward()
    for p, old in zip(model.parameters(), before, strict=True):
        assert p.grad is None
        assert torch.allclose((p.detach() - old).abs(), torch.tensor(0.1), atol=1e-3)


def test_grad_mode_is_as_before_after_a_step_that_fails():
    optimizer = torch.optim.Adam([leaf()])

    def failing():
        raise KeyError("lost")

    with pytest.raises(KeyError):
        optimizer.step(failing)
    assert torch.is_grad_enabled()


def test_an_optimizer_goes_when_nobody_holds_it():
    gc.disable()
    try:
        p = with_gradient(leaf())
        optimizer = torch.optim.Adam([p])
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        optimizer.step()
        schedule.step()
        gone = weakref.ref(optimizer)
        del optimizer, schedule
        assert gone() is None
    finally:
        gc.enable()


def test_profiles_name_the_step():
    optimizer = torch.optim.SGD([with_gradient(leaf())])
    with torch.autograd.profiler.profile() as profile:
        optimizer.step()
        optimizer.zero_grad()
    names = {event.name for event in profile.function_events}
    assert {"Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad"} <= names


def test_modules_have_torchs_paths():
    from pullback.optim import _functional, _multi_tensor
    from pullback.optim.adam import Adam, adam
    from pullback.optim.lr_scheduler import LRScheduler, _LRScheduler

    assert Adam is torch.optim.Adam
    assert _functional.adam is adam
    assert issubclass(_LRScheduler, LRScheduler)
    assert _multi_tensor.Adam([leaf()]).defaults["foreach"] is True


@pytest.mark.parametrize("differentiable", [True, False])
def test_use_grad_for_differentiable_serves_optimizers_of_users(differentiable):
    class Mine(torch.optim.Optimizer):
        @base._use_grad_for_differentiable
        def step(self):
            return torch.is_grad_enabled()

    assert Mine([leaf()], {"differentiable": differentiable}).step() is differentiable


def test_params_and_state_can_be_swapped_for_a_while():
    p, q = with_gradient(leaf()), with_gradient(leaf())
    optimizer = torch.optim.Adam([p], lr=0.1)
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"p": q}, state):
        optimizer.step()
    assert state["state"][0]["step"].item() == 2
    assert optimizer.state[p]["step"].item() == 1
    assert q.tolist() == pytest.approx([0.9, 0.9])
    with (
        pytest.raises(ValueError, match="2 were given"),
        torch.optim.swap_in_optimizer_params_and_state(optimizer, {"p": q, "r": q}, state),
    ):
        pass
