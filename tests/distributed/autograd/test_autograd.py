"""Distributed autograd: gradients through remote calls equal those of one process, exactly."""

import gc
import random
import time
import weakref

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import autograd, rpc
from pullback.distributed.optim import DistributedOptimizer
from pullback.distributed.rpc.agent import Agent
from tests.leaves import double_leaf as leaf


def workers(count, first, **options):
    """Run `first` on worker 0 while the others serve; what it returns."""

    def main():
        rpc.init_rpc(f"worker{dist.get_rank()}", **options)
        try:
            return first() if dist.get_rank() == 0 else None
        finally:
            rpc.shutdown()

    return dist.threads.run(main, count, timeout=20.0)[0]


def product_sine(a, b):
    return (a * b).sin()


def chained(a, b):
    """On worker 1: ask worker 2."""
    return rpc.rpc_sync("worker2", product_sine, (a * 2, b)) + a


def circular(a):
    """On worker 1: ask worker 0, who asks us."""
    return rpc.rpc_sync("worker0", product_sine, (a, a)) * a


def spread(values, by):
    return torch.sparse.mm(values, by)


def test_a_sparse_tensor_leads_gradients_back():

    def first():
        dense = leaf(1.0, 2.0, 3.0, 4.0)
        by = leaf(5.0, 6.0)
        with autograd.context() as context_id:
            sparse = dense.reshape(2, 2).to_sparse()
            y = rpc.rpc_sync("worker1", spread, (sparse, by.reshape(2, 1)))
            autograd.backward(context_id, [y.sum()])
            found = autograd.get_gradients(context_id)
        spread(dense.reshape(2, 2).to_sparse(), by.reshape(2, 1)).sum().backward()
        assert torch.equal(found[dense], dense.grad)
        assert torch.equal(found[by], by.grad)

    workers(2, first)


def test_a_call_leads_gradients_back():
    """B-42, B-50."""

    def first():
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", product_sine, (a, b))
            autograd.backward(context_id, [y.sum()])
            found = autograd.get_gradients(context_id)
        assert a.grad is None
        product_sine(a, b).sum().backward()
        assert torch.equal(found[a], a.grad)
        assert torch.equal(found[b], b.grad)
        assert set(found) == {a, b}
        assert not found[a].requires_grad

    workers(2, first)


def test_a_pass_through_one_call_makes_two_round_trips(monkeypatch):
    """What costs milliseconds where workers are actors; what nobody waits for does not."""
    asked = []
    accept = Agent.accept

    def first():
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", product_sine, (a, b))
            root = y.sum()
            monkeypatch.setattr(
                Agent,
                "accept",
                lambda agent, request, future: (
                    asked.append(request.kind),
                    accept(agent, request, future),
                ),
            )
            autograd.backward(context_id, [root])
            monkeypatch.undo()

    workers(2, first)
    # The other worker, with nothing left to do, may come to the meeting at the end meanwhile; the
    # last of these is only told.
    assert [kind for kind in asked if kind != "meet"] == ["mark", "carry", "drop"]


def scaled(a, b, way, depth):
    """On any worker: a step of a program that wanders between workers."""
    c = a * b.sin() + a
    if not depth:
        return c
    there, *way = way
    d = rpc.rpc_sync(f"worker{there}", scaled, (c, b, way, depth - 1))
    return d * a + rpc.rpc_sync(f"worker{way[0]}", scaled, (d, a, way, 0))


def scaled_here(a, b, depth):
    c = a * b.sin() + a
    if not depth:
        return c
    d = scaled_here(c, b, depth - 1)
    return d * a + scaled_here(d, a, 0)


@pytest.mark.parametrize("mode", ["smart", "fast"])
def test_gradients_find_back_by_any_way_between_workers(mode):
    def first():
        generator = random.Random(0)
        for _ in range(12):
            a, b = leaf(0.3, 0.7), leaf(1.1, -0.4)
            way = generator.choices(range(4), k=5)
            with autograd.context() as context_id:
                y = rpc.rpc_sync(f"worker{way[0]}", scaled, (a, b, way[1:], 3))
                autograd.backward(context_id, [y.sum(), (y * a).sum()], mode=mode)
                found = autograd.get_gradients(context_id)
            here = scaled_here(a, b, 3)
            (here.sum() + (here * a).sum()).backward()
            torch.testing.assert_close(found[a], a.grad, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(found[b], b.grad, rtol=1e-12, atol=1e-12)

    workers(4, first)


def test_chains_and_circles_too():
    """B-43, B-46, B-47."""

    def first():
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", chained, (a, b))
            z = rpc.rpc_sync("worker1", circular, (y * a,))
            autograd.backward(context_id, [z.sum(), (y * b).sum()])
            found = autograd.get_gradients(context_id)
        y = product_sine(a * 2, b) + a
        z = product_sine(y * a, y * a) * (y * a)
        (z.sum() + (y * b).sum()).backward()
        torch.testing.assert_close(found[a], a.grad, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found[b], b.grad, rtol=1e-12, atol=1e-12)

    workers(3, first)


HELD = {}


def hold(name, *values):
    HELD[name] = leaf(*values)


def use_held(name, x):
    return HELD[name] * x


def held_gradient(name, context_id):
    return autograd.get_gradients(context_id)[HELD[name]]


def test_leaves_get_their_gradient_on_the_worker_that_has_them():
    """B-49."""

    def first():
        rpc.rpc_sync("worker1", hold, ("w", 2.0, 3.0))
        x = leaf(5.0, 7.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", use_held, ("w", x))
            autograd.backward(context_id, [y.sum()])
            assert set(autograd.get_gradients(context_id)) == {x}
            there = rpc.rpc_sync("worker1", held_gradient, ("w", context_id))
        assert there.tolist() == [5.0, 7.0]
        assert HELD["w"].grad is None

    workers(2, first)


def several(a, b):
    return {"x": a * 2, "y": [b * 3, a.detach()], "n": 4}


def test_several_results_of_which_some_are_unused():
    """B-48."""

    def first():
        a, b = leaf(1.0), leaf(2.0)
        started = time.monotonic()
        with autograd.context() as context_id:
            unused = rpc.rpc_sync("worker1", product_sine, (a, b))
            got = rpc.rpc_sync("worker1", several, (a, b))
            assert not got["y"][1].requires_grad
            assert got["n"] == 4
            autograd.backward(context_id, [got["x"].sum()])
            found = autograd.get_gradients(context_id)
        assert time.monotonic() - started < 5
        assert found[a].item() == 2.0
        assert found[b].item() == 0.0
        assert unused.requires_grad

    workers(2, first)


def test_the_fast_mode_says_what_it_waits_for():
    """B-48."""

    def first():
        a, b = leaf(1.0), leaf(2.0)
        with autograd.context() as context_id:
            rpc.rpc_sync("worker1", product_sine, (a, b))
            y = rpc.rpc_sync("worker1", product_sine, (a, b))
            started = time.monotonic()
            with pytest.raises(RuntimeError, match=r"no gradient came for the messages \[.*fast"):
                autograd.backward(context_id, [y.sum()], mode="fast")
            assert time.monotonic() - started < 5
            assert autograd.get_gradients(context_id) == {}
            autograd.backward(context_id, [rpc.rpc_sync("worker1", product_sine, (a, b)).sum()])
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", product_sine, (a, b))
            autograd.backward(context_id, [y.sum()], mode="fast")
            assert len(autograd.get_gradients(context_id)) == 2

    workers(2, first)


def test_passes_of_one_context_add_up_and_contexts_do_not_mix():
    """B-49, B-53."""

    def first():
        a = leaf(3.0)
        with autograd.context() as one:
            y = rpc.rpc_sync("worker1", torch.square, (a,))
            autograd.backward(one, [y.sum()], retain_graph=True)
            autograd.backward(one, [y.sum()])
            assert autograd.get_gradients(one)[a].item() == 12.0
            with pytest.raises(RuntimeError, match=r"a second time|freed"):
                autograd.backward(one, [y.sum()])
        with autograd.context() as two:
            autograd.backward(two, [(a * 2).sum()])
            assert autograd.get_gradients(two)[a].item() == 2.0
        assert one != two

    workers(2, first)


def contexts_here():
    return autograd._get_debug_info()["num_autograd_contexts"]


def test_contexts_are_gone_everywhere_when_they_are_left():
    """B-41, B-55."""

    def first():
        a, b = leaf(1.0), leaf(2.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", chained, (a, b))
            assert autograd._is_valid_context(context_id)
            known = autograd._retrieve_context(context_id)
            assert autograd._current_context() is known
            assert known._known_worker_ids() == {1}
            assert len(known._send_functions()) == len(known._recv_functions()) == 1
            autograd.backward(context_id, [y.sum()])
        assert not autograd._is_valid_context(context_id)
        counts = [rpc.rpc_sync(f"worker{k}", contexts_here) for k in range(3)]
        assert counts == [0, 0, 0]
        assert autograd._get_debug_info()["num_current_backward_passes"] == 0
        with pytest.raises(RuntimeError, match=f"no autograd context {context_id}"):
            autograd.get_gradients(context_id)

    workers(3, first)


def test_roots_and_ids_are_checked():
    """B-41, B-45."""

    def first():
        a = leaf(1.0, 2.0)
        with autograd.context() as context_id:
            for roots, text in (
                ([], "there are no roots"),
                ([torch.ones(1)], "does not require grad"),
                ([a * 2], "2 elements, not 1"),
                ([leaf(1.0)], "no grad_fn"),
            ):
                with pytest.raises(RuntimeError, match=text):
                    autograd.backward(context_id, roots)
            with pytest.raises(RuntimeError, match="no autograd context 99"):
                autograd.backward(99, [a.sum()])
            with pytest.raises(RuntimeError, match="do not nest"), autograd.context():
                pass

    workers(2, first)


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise ValueError("formula failed")


def failing(x):
    return Failing.apply(x)


def test_a_failing_formula_is_told_with_its_worker_and_leaves_all_usable():
    """B-51."""

    def first():
        a, b = leaf(1.0), leaf(2.0)
        with autograd.context() as context_id:
            autograd.backward(context_id, [(a * 3).sum()])
            y = rpc.rpc_sync("worker1", failing, (a,))
            z = rpc.rpc_sync("worker1", product_sine, (a, b))
            started = time.monotonic()
            with pytest.raises(RuntimeError, match="worker1: ValueError: formula failed") as error:
                autograd.backward(context_id, [(y * z).sum()])
            assert time.monotonic() - started < 5
            assert isinstance(error.value.__cause__, ValueError)
            assert autograd.get_gradients(context_id)[a].item() == 3.0
            assert rpc.rpc_sync("worker1", autograd._get_debug_info) == {
                "num_autograd_contexts": 1,
                "num_current_backward_passes": 0,
            }
            autograd.backward(context_id, [rpc.rpc_sync("worker1", torch.square, (a,)).sum()])
            assert autograd.get_gradients(context_id)[a].item() == 5.0

    workers(2, first)


def test_outside_a_context_tensors_arrive_as_leaves():
    """B-44."""

    def first():
        a = leaf(1.0)
        y = rpc.rpc_sync("worker1", torch.square, (a,))
        assert y.requires_grad
        assert y.is_leaf

    workers(2, first)


class Layer:
    def __init__(self):
        self.weight = torch.full((2,), 2.0, requires_grad=True)

    def forward(self, x):
        return self.weight * x

    def parameter(self):
        return rpc.RRef(self.weight)


def test_a_distributed_optimizer_steps_where_parameters_are():
    """B-58."""

    def first():
        layers = [rpc.remote(f"worker{k}", Layer) for k in (1, 2)]
        parameters = [layer.rpc_sync().parameter() for layer in layers]
        optimizer = DistributedOptimizer(torch.optim.SGD, parameters, lr=0.5)
        x = torch.tensor([1.0, 3.0])
        for _ in range(2):
            with autograd.context() as context_id:
                y = layers[1].rpc_sync().forward(layers[0].rpc_sync().forward(x))
                autograd.backward(context_id, [y.sum()])
                optimizer.step(context_id)
        values = [parameter.to_here().tolist() for parameter in parameters]
        a = torch.full((2,), 2.0, requires_grad=True)
        b = torch.full((2,), 2.0, requires_grad=True)
        plain = torch.optim.SGD([a, b], lr=0.5)
        for _ in range(2):
            plain.zero_grad()
            (a * x * b).sum().backward()
            plain.step()
        assert values == [a.tolist(), b.tolist()]
        with pytest.raises(RuntimeError, match="no autograd context 5"):
            optimizer.step(5)

    workers(3, first)


def test_a_received_value_connects_by_to_here():
    """B-42."""

    def first():
        a = leaf(3.0)
        with autograd.context() as context_id:
            rref = rpc.remote("worker1", torch.square, (a,))
            autograd.backward(context_id, [rref.to_here().sum()])
            assert autograd.get_gradients(context_id)[a].item() == 6.0

    workers(2, first)


def test_nothing_is_kept_alive():
    def first():
        a = leaf(1.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", torch.square, (a,))
            autograd.backward(context_id, [y.sum()])
        seen = weakref.ref(y)
        del y
        time.sleep(0.05)
        return seen

    gc.collect()
    gc.disable()
    try:
        assert workers(2, first)() is None
    finally:
        gc.enable()


def test_sends_and_receives_are_seen_as_nodes():

    def first():
        a = leaf(1.0, 2.0)
        with autograd.context() as context_id:
            y = a * 2
            rpc.rpc_sync("worker1", torch.square, (y,))
            context = autograd._retrieve_context(context_id)
            (sent,) = context._send_functions().values()
            assert sent.next_functions == ((y.grad_fn, 0),)
            assert sent.name().endswith("SendRpcBackward")
            (received,) = context._recv_functions().values()
            assert received.next_functions == ()

    workers(2, first)
