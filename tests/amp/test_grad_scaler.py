"""GradScaler: what is scaled, when a step is left out, how the scale moves."""

import pickle

import pytest

import pullback as torch


class Descent:
    """An optimizer of a few lines."""

    def __init__(self, *params):
        self.param_groups = [{"params": list(params)}]
        self.steps = 0

    def step(self):
        self.steps += 1
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter -= 0.1 * parameter.grad
        return "stepped"


def prepared(**options):
    w = torch.ones(2, requires_grad=True)
    return torch.amp.GradScaler("cpu", **options), w, Descent(w)


def test_gradients_are_scaled_and_back_before_the_step():
    scaler, w, descent = prepared(init_scale=8.0)
    scaler.scale((w * 3).sum()).backward()
    assert w.grad.tolist() == [24, 24]
    scaler.unscale_(descent)
    assert w.grad.tolist() == [3, 3]
    assert scaler.step(descent) == "stepped"
    assert w.grad.tolist() == [3, 3]
    scaler.update()
    assert (scaler.get_scale(), scaler.state_dict()["_growth_tracker"]) == (8.0, 1)


@pytest.mark.parametrize("wrong", [float("inf"), float("nan")])
def test_a_step_with_infinite_gradients_is_left_out(wrong):
    scaler, w, descent = prepared(init_scale=8.0)
    scaler.scale((w * wrong).sum()).backward()
    assert scaler.step(descent) is None
    scaler.update()
    assert (descent.steps, scaler.get_scale()) == (0, 4.0)
    assert w.tolist() == [1, 1]


def test_the_scale_grows_after_good_steps():
    scaler, w, descent = prepared(init_scale=4.0, growth_interval=2)
    scales = []
    for _ in range(5):
        w.grad = None
        scaler.scale(w.sum()).backward()
        scaler.step(descent)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [4, 8, 8, 16, 16]
    scaler.update(3.0)
    assert scaler.get_scale() == 3.0


def test_the_order_of_calls_is_watched():
    scaler, w, descent = prepared()
    for early in (scaler.unscale_, scaler.step):
        with pytest.raises(AssertionError, match="nothing was scaled"):
            early(descent)
    scaler.scale(w.sum()).backward()
    with pytest.raises(AssertionError, match="no step"):
        scaler.update()
    scaler.unscale_(descent)
    with pytest.raises(RuntimeError, match="unscaled already"):
        scaler.unscale_(descent)
    scaler.step(descent)
    with pytest.raises(RuntimeError, match="has stepped"):
        scaler.step(descent)
    with pytest.raises(RuntimeError, match="has stepped"):
        scaler.unscale_(descent)
    with pytest.raises(RuntimeError, match="closures"):
        scaler.step(descent, closure=print)


def test_gradients_in_float16_are_refused():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    w = torch.ones(2, dtype=torch.float16, requires_grad=True)
    scaler.scale(w.sum()).backward()
    with pytest.raises(ValueError, match="float16"):
        scaler.unscale_(Descent(w))


def test_containers_are_scaled_element_by_element():
    scaler, _, _ = prepared(init_scale=4.0)
    one, (two,) = scaler.scale([torch.ones(1), (torch.ones(1, dtype=torch.float64),)])
    assert (one.tolist(), two.tolist(), two.dtype) == ([4], [4], torch.float64)
    with pytest.raises(ValueError, match="iterable"):
        scaler.scale(3.0)


def test_states_are_taken_over():
    scaler, w, _ = prepared()
    scaler.scale(w.sum())
    state = {
        "scale": 4.0,
        "growth_factor": 3.0,
        "backoff_factor": 0.25,
        "growth_interval": 5,
        "_growth_tracker": 2,
    }
    for other in (scaler, torch.amp.GradScaler("cpu"), pickle.loads(pickle.dumps(scaler))):
        other.load_state_dict(state)
        assert other.state_dict() == state
    with pytest.raises(RuntimeError, match="empty"):
        scaler.load_state_dict({})
    with pytest.raises(AssertionError):
        torch.amp.GradScaler("cpu", growth_factor=1.0)


def test_a_scaler_that_is_off_does_nothing():
    with pytest.warns(UserWarning, match="no CUDA"):
        scaler = torch.amp.GradScaler()
    w = torch.ones(2, requires_grad=True)
    assert scaler.scale(w) is w
    w.sum().backward()
    descent = Descent(w)
    scaler.unscale_(descent)
    assert scaler.step(descent) == "stepped"
    scaler.update()
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)


def test_a_scaler_may_have_its_own_way_to_unscale():
    class Own(torch.amp.GradScaler):
        def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
            seen.append((inv_scale.item(), found_inf.item(), allow_fp16))
            return super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)

    seen = []
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler = Own("cpu", init_scale=4.0)
    scaler.scale((w * 3).sum()).backward()
    scaler.step(optimizer)
    assert w.tolist() == [-2.0, -2.0]
    assert seen == [(0.25, 0.0, False)]


def test_the_state_of_an_optimizer_is_made_when_asked_for():
    scaler = torch.amp.GradScaler("cpu")
    assert scaler._per_optimizer_states["anybody"]["found_inf_per_device"] == {}
