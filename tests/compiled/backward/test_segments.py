"""Passes with a user's code in them: programs between stops give what the engine gives."""

import numpy as np
import pytest

import pullback as torch
from pullback.compiled.backward import takeover
from pullback.compiled.backward.takeover import clear_cache, compile_reasons, compiled_autograd
from pullback.compiled.counting import counters
from pullback.core import overriding
from tests.compiled.backward.graphs_with_hooks import (
    TABLE,
    a_step_inside,
    at_random,
    leaves,
    on_a_tensor_inside,
    same,
    seen,
    shown,
    tolerance,
)


@pytest.fixture(autouse=True)
def _fresh():
    clear_cache()
    counters["compiled_autograd"].clear()


@pytest.mark.parametrize("how", ["backward", "twice", "grad", "inputs"])
@pytest.mark.parametrize("build", TABLE, ids=lambda f: f.__name__)
def test_user_code_sees_what_it_sees_on_the_engine(build, how, backend):
    """K-11, K-12, K-13, K-17, K-33"""
    for seed in range(4):  # captured, walked, and twice along the trail
        theirs = seen(build, how, seed)
        with compiled_autograd(backend=backend, fallback="silent"):
            ours = seen(build, how, seed)
        same(ours, theirs, tolerance(backend))
    found = counters["compiled_autograd"]
    if overriding.answering:  # another test's class that sees operators lives on: Functions may
        return  # return tensors of it, so the engine runs them
    assert found["sections"]
    if (build, how) != (a_step_inside, "twice"):  # whose second pass is the engine's error
        assert not [name for name in found if name.startswith("fallback")]


@pytest.mark.parametrize("how", ["backward", "twice", "grad", "inputs"])
@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_with_user_code_in_them(seed, how, backend):
    build = at_random(seed)
    for values in range(3):
        theirs = seen(build, how, values)
        with compiled_autograd(backend=backend, fallback="silent"):
            ours = seen(build, how, values)
        same(ours, theirs, tolerance(backend))


def test_other_functions_in_the_same_places_hit_and_one_more_or_less_misses(backend):
    """K-21, K-23"""
    x = torch.ones(3, requires_grad=True)

    def one_pass(*hooks, after=()):
        h = x * 2
        for hook in hooks:
            h.register_hook(hook)
        for hook in after:
            h.grad_fn.register_hook(hook)
        x.grad = None
        with compiled_autograd(backend=backend, fallback="error"):
            h.sin().exp().sum().backward()
        found = counters["compiled_autograd"]
        return found["captures"], found["hits"]

    assert one_pass(lambda g: g * 2) == (1, 0)
    wanted = x.grad.clone()
    assert one_pass(lambda g: g * 4) == (1, 1)
    torch.testing.assert_close(x.grad, wanted * 2)
    assert one_pass(lambda g: g * 6) == (1, 2)
    torch.testing.assert_close(x.grad, wanted * 3)
    assert one_pass(lambda g: g, lambda g: g) == (2, 2)
    assert one_pass(after=[lambda a, b: None]) == (3, 2)
    assert one_pass() == (4, 2)
    assert one_pass(lambda g: None) == (4, 3)
    torch.testing.assert_close(x.grad, wanted / 2)


@pytest.mark.parametrize("sort", ["tensor", "pre", "post", "accumulated", "leaf", "shape", "type"])
def test_after_an_error_of_a_hook_all_is_as_after_the_engines(sort, backend):
    """K-32, K-33, K-34"""

    def fails(*given):
        return 1 / 0

    def run():
        x, y, z = leaves(np.random.default_rng(0))
        h = (x * y).sin()
        if sort in ("shape", "type", "tensor"):
            wrong = {"shape": lambda g: g[:1], "type": lambda g: g.double(), "tensor": fails}
            handle = h.register_hook(wrong[sort])
        elif sort == "pre":
            handle = h.grad_fn.register_prehook(fails)
        elif sort == "post":
            handle = h.grad_fn.register_hook(fails)
        elif sort == "leaf":
            handle = y.register_hook(fails)
        else:
            handle = y.register_post_accumulate_grad_hook(fails)
        root = (h * z).exp().sum()
        with pytest.raises((ZeroDivisionError, RuntimeError)) as raised:
            root.backward()
        state = [shown(one.grad) for one in (x, y, z)]
        with pytest.raises(RuntimeError) as again:  # some of it is freed
            root.backward()
        handle.remove()
        ((x * y).sin() * z).exp().sum().backward()
        later = [shown(one.grad) for one in (x, y, z)]
        return type(raised.value), str(raised.value), str(again.value)[:60], state, later

    theirs = run()
    for _ in range(3):
        with compiled_autograd(backend=backend, fallback="silent"):
            ours = run()
        same(ours, theirs, tolerance(backend))


def test_a_saved_tensor_that_a_hook_changes_is_the_engines_error(backend):
    """K-14: though nothing was changed when the pass began."""

    def run():
        x, c = torch.ones(3, requires_grad=True), torch.ones(3)
        h = (x * c).sin()

        def hook(g):
            c.add_(1)

        h.register_hook(hook)
        with pytest.raises(RuntimeError, match="modified by an inplace") as raised:
            h.exp().sum().backward()
        return str(raised.value), x.grad

    theirs = run()
    with compiled_autograd(backend=backend, fallback="error"):
        for _ in range(3):
            assert run() == theirs


def test_a_function_that_gives_no_gradient_now_and_then(backend):
    gives = [True]

    class Sometimes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 if gives[0] else None

    def run():
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        seen = []
        h = x.exp()
        h.register_hook(lambda g: seen.append(shown(g)))
        (Sometimes.apply(h.sin()) * y).sum().backward()
        return seen, shown(x.grad), shown(y.grad)

    for gives[0] in (True, False, True, False, False):
        theirs = run()
        with compiled_autograd(backend=backend, fallback="error"):
            same(run(), theirs, tolerance(backend))


def test_a_gradient_that_a_hook_puts_in_place_of_a_saved_tensor_is_no_part_of_the_program(backend):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for replaced in (True, False, True, False):
        y = x * x
        h = y * 3
        h.register_hook(lambda g, y=y, is_saved=replaced: y.detach() if is_saved else g * 5)
        x.grad = None
        with compiled_autograd(backend=backend, fallback="error"):
            (h * y.detach()).sum().backward()
        g = y if replaced else y * 5
        torch.testing.assert_close(x.grad, (g * 3 * 2 * x).detach())


def test_a_hook_at_every_node_leaves_the_pass_to_the_engine():
    """K-31"""
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * 2)
    with compiled_autograd(backend="python"), pytest.warns(UserWarning, match="at each of its"):
        y.backward(torch.ones(3))
    assert x.grad.eq(4).all()


def test_a_pass_with_hooks_whose_nodes_are_logged_is_the_engines(caplog):
    """K-3, K-31"""
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    h.register_hook(lambda g: g * 2)
    with caplog.at_level("DEBUG", "pullback.autograd.graph"):
        with (
            compiled_autograd(backend="python", fallback="error"),
            pytest.raises(NotImplementedError, match="somebody looks"),
        ):
            h.exp().sum().backward()
        assert x.grad is None
        with compiled_autograd(backend="python", fallback="silent"):
            h.sum().backward()
    assert x.grad.eq(4).all()
    assert len(caplog.records) == 3


def test_a_section_that_cannot_be_captured_is_left_to_the_engine_with_the_reason(monkeypatch):
    """K-27, K-31"""
    from pullback.compiled.backward import segments

    def refused(*given):
        raise segments.Unsupported("a reason")

    monkeypatch.setattr(segments, "built", refused)
    theirs = seen(on_a_tensor_inside, "backward", 0)
    with compiled_autograd(backend="python"):
        for _ in range(3):
            same(seen(on_a_tensor_inside, "backward", 0), theirs, 0)
    assert "left to the engine: a reason" in compile_reasons[-1]
    assert counters["compiled_autograd"]["fallback: a reason"] == 2


def test_programs_between_hooks_keep_no_tensor_alive():
    """K-29"""
    import gc
    import weakref

    class Owner:
        pass

    x = torch.ones(3, requires_grad=True)
    h = (x * 2).sin()
    owner = Owner()
    h.register_hook(lambda g, owner=owner: None)
    root = h.exp().sum()
    with compiled_autograd(backend="python", fallback="error"):
        root.backward()
    watched = [weakref.ref(one) for one in (owner, h, root.grad_fn, h.grad_fn)]
    del owner, h, root
    gc.collect()
    assert [one() for one in watched] == [None] * 4
    assert not takeover.is_cache_empty()
