"""`graph.watch`: a training run on one page, at little cost."""

import gc
import math
import urllib.error
import urllib.request

import pytest

import pullback as torch
from pullback import nn
from pullback.autograd.answers import watch as watching
from pullback.autograd.answers.watch import Watch
from pullback.autograd.graph import watch


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def train(net, run, steps, lr=0.05):
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    x = torch.randn(32, 8)
    y = x.sum(1, keepdim=True)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        run.step(loss)
    return loss


def test_losses_norms_and_updates_are_those_of_the_run():
    net = model()
    run = watch(net, budget=1.0)  # as often as can be
    loss = train(net, run, 30)
    assert [step for step, _ in run.losses] == list(range(1, 31))
    assert run.losses[-1][1] == pytest.approx(loss.item())
    last = run.samples[-1]
    for number, (name, parameter) in enumerate(net.named_parameters()):
        assert run.names[number] == name
        if last.step == run.steps:
            assert last.weight[number] == pytest.approx(parameter.norm().item(), rel=1e-5)
            assert last.gradient[number] == pytest.approx(parameter.grad.norm().item(), rel=1e-5)
    for sample in run.samples[1:]:  # plain SGD: the update is lr times the gradient
        for update, gradient in zip(sample.update, sample.gradient, strict=True):
            assert update == pytest.approx(0.05 * gradient, rel=1e-2)
    assert math.isnan(run.samples[0].update[0])
    counts = last.histograms[0]
    assert counts.sum() == 8 * 16


def test_the_budget_holds(monkeypatch):
    """By a clock that the test moves on: a step 100 us, a sample 500, and 1 us to look."""
    now = 0.0

    def clock():
        nonlocal now
        now += 0.5e-6
        return now

    take = Watch._take

    def slow(run):
        nonlocal now
        now += 500e-6
        take(run)

    monkeypatch.setattr(watching, "perf_counter", clock)
    monkeypatch.setattr(Watch, "_take", slow)
    run = watch(model())
    for _ in range(50_000):
        now += 100e-6
        run.step(1.0)
    assert 0.005 < run.share < 0.03
    assert len(run.samples) > 60


@pytest.mark.parametrize("steps", [1, 7, 60, 500])
def test_a_short_run_has_its_first_and_last_step_and_thirty_samples(steps):
    net = model()
    run = watch(net, budget=1e-9)
    train(net, run, steps)
    run.page()
    seen = [one.step for one in run.samples]
    assert seen[0] == 1
    assert seen[-1] == steps
    assert len(seen) >= min(steps, 30)
    last = run.samples[-1]
    assert last.gradient[0] == pytest.approx(float(net[0].weight.grad.norm()), rel=1e-5)


def test_samples_are_drawn_at_their_steps_under_an_axis_that_names_some():
    net = model()
    run = watch(net, budget=1e-9)
    train(net, run, 200)
    drawn = run.page().html()
    assert "step 1<" in drawn
    assert ">200<" in drawn
    assert drawn.count("<circle") >= 30
    assert "<td></td>" not in drawn  # the last sample's own update comes with the next step


def test_a_long_run_keeps_a_bounded_number(monkeypatch):
    from pullback.autograd.answers import watch as module

    monkeypatch.setattr(module, "_MOST_LOSSES", 50)
    monkeypatch.setattr(module, "_MOST_SAMPLES", 10)
    net = model()
    run = watch(net, budget=1.0)
    train(net, run, 400)
    assert 20 <= len(run.losses) <= 50
    assert len(run.samples) <= 10
    assert run.samples[0].step == 1
    assert run.steps == 400


def test_the_page_stands_alone(tmp_path):
    net = model()
    with watch(net, path=tmp_path / "run.html", budget=1.0) as run:
        train(net, run, 20)
    text = (tmp_path / "run.html").read_text("utf-8")
    for part in ("20 steps", "<polyline", "0.weight", "Linear(8, 16)", "histogram over time"):
        assert part in text
    assert "src=" not in text
    assert "fetch(" not in text
    with pytest.raises(ValueError, match=r"\.html"):
        watch(net, path="run.png")
    with pytest.raises(ValueError, match="needs a path"):
        watch(net).save()


def test_parameters_without_gradients_and_no_steps_are_no_trouble(tmp_path):
    net = model()
    run = watch(net)
    assert "0 steps" in run.page().html()
    run.step(3.0)
    assert "nan" in run.page().html()
    assert repr(run).startswith("<1 step of 4 parameters, 1 sample; ")
    with pytest.raises(ValueError, match="no parameter"):
        watch(model().requires_grad_(False))


def test_the_live_page_is_served_on_the_loopback_alone(capsys):
    net = model()
    run = watch(net, serve=True, budget=1.0)
    try:
        address = capsys.readouterr().out.split()[-1]
        assert address.startswith("http://127.0.0.1:")
        assert run.server._server.server_address[0] == "127.0.0.1"
        train(net, run, 5)
        first = _read(address)
        assert "5 steps" in first
        assert "fetch(" in first
        train(net, run, 5)
        assert "10 steps" in _read(address + "body")
        for path, host, code in (("other", None, 404), ("", "evil.example:80", 403)):
            request = urllib.request.Request(address + path)
            if host:
                request.add_header("Host", host)
            with pytest.raises(urllib.error.HTTPError) as raised:
                urllib.request.urlopen(request, timeout=30)
            assert raised.value.code == code
            raised.value.close()
    finally:
        run.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=30)


def _read(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode("utf-8")


def test_the_model_goes_when_the_run_goes():
    import weakref

    net = model()
    run = watch(net)
    train(net, run, 3)
    gone = weakref.ref(net[0].weight)
    del net, run
    gc.collect()
    assert gone() is None
