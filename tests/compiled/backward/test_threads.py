"""Other threads compute with the same parameters while a pass is captured."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pullback._dynamo import compiled_autograd as of_users

import pullback as torch
from pullback import nn
from pullback.compiled.backward import resized, standing
from pullback.compiled.backward.takeover import clear_cache, compiled_autograd
from pullback.compiled.counting import counters


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    clear_cache()
    counters["compiled_autograd"].clear()
    counters["sizes"].clear()


@pytest.fixture
def elsewhere():
    """Runs what it is given in another thread, which is there all the time, and waits for it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # starts the thread
        yield lambda work: pool.submit(work).result()


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))


@pytest.mark.parametrize("block", [compiled_autograd, lambda: of_users._enable(lambda g: g)])
def test_other_threads_see_parameters_as_they_are_while_a_pass_is_captured(
    block, model, elsewhere, monkeypatch
):
    x = torch.randn(5, 4)
    usual, seen = model(x), []
    settled = standing.StandIns._stand_in

    def stand_in(self):
        restore = settled(self)
        seen.append(elsewhere(lambda: model(x)))
        return restore

    monkeypatch.setattr(standing.StandIns, "_stand_in", stand_in)
    with block():
        usual.square().sum().backward()
    assert seen
    assert all(torch.equal(one, usual) for one in seen)


def test_sizes_are_not_tried_out_on_a_graph_while_another_thread_runs(
    model, elsewhere, monkeypatch
):
    tried = []
    monkeypatch.setattr(resized, "_tried", lambda *_: tried.append(1))
    for n in (3, 5):
        with compiled_autograd(dynamic=True):
            model(torch.randn(n, 4)).sum().backward()
    assert not tried
    assert counters["sizes"]["a backward pass: another thread runs"] == 2
    assert counters["compiled_autograd"]["captures"] == 2
