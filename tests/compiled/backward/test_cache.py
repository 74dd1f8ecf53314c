"""How many captured backward passes are kept, and what becomes of one too many (K-28)."""

import logging

import pytest
from pullback._dynamo import compiled_autograd as module
from pullback._dynamo import config
from pullback._dynamo.utils import counters

import pullback as torch
from pullback.compiled.backward.cache import cache
from pullback.compiler import compiled_autograd

BLOCKS = {
    "program": lambda: compiled_autograd(backend="python", dynamic=False, fallback="error"),
    "compiler": lambda: module._enable(_as_it_is, dynamic=False),
}
LIMIT = 4


def _as_it_is(graph):
    return graph


@pytest.fixture(params=BLOCKS)
def block(request):
    module.reset()
    with config.patch(compiled_autograd_cache_limit=LIMIT):
        yield BLOCKS[request.param]
    module.reset()


def step(many, *, hook=False):
    """A pass over as many nodes, which no pass over another number is like."""
    x = torch.tensor([0.1, 0.2], requires_grad=True)
    y = x
    for _ in range(many):
        y = y.sin()
    if hook:
        y.register_hook(lambda g: g)
    z = y.cos().sum()
    (expected,) = torch.autograd.grad(z, x, retain_graph=True)
    z.backward()
    torch.testing.assert_close(x.grad, expected)


def counted(name):
    return counters["compiled_autograd"][name]


def captures():
    return counted("captures")


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.WARNING, "pullback.compile")
    return caplog


def test_the_least_recently_used_pass_is_forgotten(block):
    def run(*lengths):
        with block():
            for many in lengths:
                x = torch.tensor([0.1, 0.2], requires_grad=True)
                y = x
                for _ in range(many):
                    y = y.sin()
                y.sum().backward()

    run(1, 2, 3, 4, 1, 1, 1)  # the last of them by a fast path along the nodes
    assert captures() == 4
    run(5)
    assert len(cache) == LIMIT
    run(1, 3, 4, 5)
    assert captures() == 5
    run(2)
    assert captures() == 6


@pytest.mark.parametrize("hook", [False, True])
def test_passes_that_are_never_met_again_go_to_the_engine_with_one_warning(block, hook, log):
    with block():
        for many in range(1, 20):
            step(many, hook=hook)
    made = captures()
    # grad() and backward() are two passes each.
    assert LIMIT < made <= 2 * LIMIT + 1
    assert len(log.records) == 1
    assert "compiled_autograd_cache_limit" in log.text
    assert counted("fallback: more passes that differ than compiled_autograd_cache_limit keeps")
    with block():
        for many in range(30, 40):
            step(many, hook=hook)
    assert captures() == made
    assert len(log.records) == 1


def test_what_is_kept_serves_on_and_reset_begins_anew(block, log):
    with block():
        for many in range(1, 20):
            step(many)
        kept = [many for many in range(1, 20) if serves(many)]
        made = captures()
        assert kept
        step(kept[0])
        step(30)
        assert captures() == made
        module.reset()
        step(30)
        assert captures() == 2
        for many in range(1, 20):
            step(many)
    assert len(log.records) == 2


def serves(many):
    """Whether a program is there for one of the passes of a step."""
    before = counted("hits")
    step(many)
    return counted("hits") > before


def test_programs_that_are_used_make_room_without_a_warning(block, log):
    with block():
        for many in range(1, 15):
            for _ in range(2):
                step(many)
    assert captures() == 28
    assert not log.records


def test_sizes_of_one_family_are_no_captures(block, log):
    with compiled_autograd(backend="python", dynamic=True, fallback="error"):
        for size in range(2, 40):
            x = torch.ones(size, requires_grad=True)
            x.sin().cos().sum().backward()
    assert captures() <= 4
    assert len(cache) == LIMIT
    assert not log.records


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_a_number_that_is_another_each_time_goes_to_the_engine(backend, log):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    module.reset()
    x = torch.tensor([0.1, 0.2], requires_grad=True)
    with compiled_autograd(backend=backend, fallback="error"):
        for number in range(30):
            x.grad = None
            (x.exp() * (number + 0.5)).sum().backward()
            torch.testing.assert_close(x.grad, x.exp() * (number + 0.5))
        assert captures() == 8
        assert counted("fallback: a number in it is another each time") == 22
        assert len(log.records) == 1
        for number in (3, 5):  # what was captured is there
            (x.exp() * (number + 0.5)).sum().backward()
        assert counted("hits") == 2
        (x.exp() * 77.5).sum().backward()  # and once it is used, others are captured again
    assert captures() == 9


def test_a_limit_of_nothing_captures_nothing():
    module.reset()
    with config.patch(compiled_autograd_cache_limit=0), compiled_autograd(backend="python"):
        step(3)
    assert captures() == 0
    assert len(cache) == 0


def test_a_pass_that_cannot_be_captured_is_not_tried_again():
    module.reset()
    tried = []

    def compiler(graph, examples):
        tried.append(graph)
        raise ValueError("no")

    x = torch.ones(2, requires_grad=True)
    with compiled_autograd(backend=compiler, fallback="silent"):
        for _ in range(3):
            x.exp().sum().backward()
    assert len(tried) == 1
    torch.testing.assert_close(x.grad, 3 * x.exp())
