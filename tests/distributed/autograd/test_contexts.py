"""Contexts under odd messages, many threads, hooks and data parallel modules (B-49 to B-60)."""

import logging
import threading
import time
from contextvars import copy_context

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import autograd, rpc
from pullback.distributed.autograd.engine import _Parcel, _Pass
from pullback.distributed.optim import DistributedOptimizer
from pullback.distributed.rpc.agent import current_agent
from tests.leaves import double_leaf as leaf


def workers(count, first, **options):
    def main():
        rpc.init_rpc(f"worker{dist.get_rank()}", **options)
        try:
            return first() if dist.get_rank() == 0 else None
        finally:
            rpc.shutdown()

    return dist.threads.run(main, count, timeout=20.0)[0]


def ask(worker, kind, body, context_id=None):
    return current_agent().ask(worker, kind, body, context_id).wait()


def contexts_here():
    return autograd._get_debug_info()["num_autograd_contexts"]


def test_late_messages_for_a_context_that_was_left_are_ignored_with_a_line_in_the_log(caplog):
    """B-54."""

    def first():
        a = leaf(3.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", torch.square, (a,))
            autograd.backward(context_id, [y.sum()])
        assert ask(1, "carry", (context_id, _Parcel(1, 0, []), False)) == ({}, [])
        autograd._contexts.enter(context_id)  # as a thread that has not heard of the end
        late = rpc.rpc_sync("worker1", torch.square, (a,))
        autograd._contexts.enter(None)
        assert late.is_leaf
        assert late.requires_grad
        assert [rpc.rpc_sync(k, contexts_here) for k in range(2)] == [0, 0]
        return context_id

    with caplog.at_level(logging.DEBUG, "pullback.distributed"):
        context_id = workers(2, first)
    assert f"autograd context {context_id} came after it was left" in caplog.text


def test_gradients_for_an_unknown_message_are_an_error_that_names_it(caplog):
    """B-54."""

    def first():
        a = leaf(3.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", torch.square, (a,))
            with pytest.raises(RuntimeError, match="has sent no message 12345 from here"):
                ask(1, "carry", (context_id, _Parcel(1, 12345, []), False))
            autograd.backward(context_id, [y.sum()])
            assert autograd.get_gradients(context_id)[a].item() == 6.0

    workers(2, first)


def twice(x):
    """On worker 1: the gradients that worker 0 will send are given before it does."""
    return x * 2


def test_gradients_that_come_twice_count_once():
    """B-54."""

    def first():
        a = leaf(3.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", twice, (a,))
            context = autograd._retrieve_context(context_id)
            ((number, _),) = context._recv_functions().items()
            ((sender, sent),) = ask(1, "mark", (context_id, [number], False))
            assert sender == 0
            with context.lock:  # as in a pass that began here
                context.running = _Pass(context, everything=True)
            body = (context_id, _Parcel(1, number, [y.detach().numpy() * 0 + 1]), False)
            parts, (returned,) = ask(1, "carry", body)
            assert parts == {1: False}
            assert returned[:2] == (0, sent)
            assert ask(1, "carry", body) == ({1: False}, [])
            for _ in range(2):
                assert ask(0, "carry", (context_id, returned, False)) == ({0: True}, [])
            for worker in (0, 1):
                ask(worker, "commit", context_id)
            assert autograd.get_gradients(context_id)[a].item() == 2.0

    workers(2, first)


def test_a_second_pass_while_one_runs_is_an_error():
    """B-53."""

    def first():
        a = leaf(3.0)
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", torch.square, (a,))
            other, seen = (a * 2).sum(), []

            def inside(grad):
                with pytest.raises(RuntimeError, match=f"runs already in context {context_id}"):
                    autograd.backward(context_id, [other])
                seen.append(True)

            y.register_hook(inside)
            autograd.backward(context_id, [y.sum()])
            assert seen
            assert autograd.get_gradients(context_id)[a].item() == 6.0

    workers(2, first)


def test_threads_of_one_worker_have_contexts_of_their_own():
    """B-57: eight clients at once on one server; each finds its own gradient."""

    def first():
        found = {}

        def client(number):
            a = leaf(float(number))
            with autograd.context() as context_id:
                parts = [rpc.rpc_async("worker1", torch.square, (a * k,)) for k in (1, 2, 3)]
                total = sum(part.wait() for part in parts)
                autograd.backward(context_id, [total.sum()])
                found[number] = (context_id, autograd.get_gradients(context_id)[a].item())

        threads = [threading.Thread(target=copy_context().run, args=(client, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert {number: value for number, (_, value) in found.items()} == {
            number: 2.0 * 14 * number for number in range(8)
        }
        assert len({context_id for context_id, _ in found.values()}) == 8
        assert rpc.rpc_sync("worker1", contexts_here) == 0

    workers(2, first)


def test_hooks_of_leaves_fire_though_gradients_stay_in_the_context():
    """B-49."""

    def first():
        a = leaf(3.0)
        seen = []
        node = torch.autograd.graph.get_gradient_edge(a).node
        a.register_hook(lambda g: seen.append("tensor"))
        node.register_prehook(lambda given: (seen.append("before"), (given[0] * 10,))[1])
        node.register_hook(lambda _, given: seen.append(("after", given[0].item())))
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", torch.square, (a,))
            autograd.backward(context_id, [y.sum()])
            assert autograd.get_gradients(context_id)[a].item() == 60.0
        assert seen == ["tensor", "before", ("after", 60.0)]
        assert a.grad is None

    workers(2, first)


@pytest.mark.parametrize("overlap", [False, True])
def test_data_parallel_modules_average_in_the_context(overlap):
    """B-60: two trainers share a module, and each asks the third worker for a part of its loss."""

    def main():
        rank = dist.get_rank()
        trainers = dist.new_group([0, 1])
        rpc.init_rpc(f"worker{rank}")
        found = None
        if rank < 2:
            model = torch.nn.Linear(2, 1, bias=False)
            with torch.no_grad():
                model.weight.fill_(1.0)
            parallel = torch.nn.parallel.DistributedDataParallel(
                model, process_group=trainers, overlap=overlap
            )
            model.weight.grad = torch.full((1, 2), 7.0)
            found = []
            for _ in range(2):
                with autograd.context() as context_id:
                    y = parallel(torch.tensor([[rank + 1.0, 3.0]]))
                    loss = rpc.rpc_sync("worker2", torch.square, (y,)).sum()
                    autograd.backward(context_id, [loss])
                    found.append(autograd.get_gradients(context_id)[model.weight].tolist())
            assert model.weight.grad.tolist() == [[7.0, 7.0]]
        rpc.shutdown()
        return found

    one, other, _ = dist.threads.run(main, 3, timeout=20.0)
    # y = 4 and 5; gradients 2 y x are (8, 24) and (20, 30).
    assert one == other == [[[14.0, 27.0]], [[14.0, 27.0]]]


def test_device_maps_lead_there_and_back():
    """B-56."""
    options = rpc.TensorPipeRpcBackendOptions(device_maps={"b": {0: 1, "cuda:1": "cuda:0"}})
    from pullback.distributed.rpc.options import DeviceMaps

    maps = {"a": options.device_maps, "b": {}, "c": {}}
    assert DeviceMaps("a", maps).there("b", "cuda:0") == "cuda:1"
    assert DeviceMaps("b", maps).there("a", "cuda:0") == "cuda:1"  # the way back of cuda:1
    assert DeviceMaps("b", maps).there("a", "cpu") == "cpu"
    with pytest.raises(RuntimeError, match="on cuda:0 cannot go from 'a' to 'c': no device map"):
        DeviceMaps("a", maps).there("c", "cuda:0")
    with pytest.raises(ValueError, match="cuda:0 goes to cuda:1 on 'b' already"):
        options.set_device_map("b", {0: 3})
    with pytest.raises(ValueError, match="two devices go to one"):
        options.set_device_map("d", {0: 1, 2: 1})

    def main():
        unknown = rpc.TensorPipeRpcBackendOptions(device_maps={"nobody": {0: 0}})
        with pytest.raises(ValueError, match="device map for no worker"):
            rpc.init_rpc(f"w{dist.get_rank()}", rpc_backend_options=unknown)

    dist.threads.run(main, 2)


def test_calls_are_ranges_in_the_profiler():
    """B-59; what comes back from other processes is in the tests of `rpc`."""

    def first():
        with torch.autograd.profiler.profile() as seen:
            rpc.rpc_sync("worker1", torch.sin, (torch.ones(2),))
        (event,) = [one for one in seen.function_events if one.name.startswith("rpc_sync")]
        assert event.name == "rpc_sync#sin(worker0 -> worker1)"
        assert event.is_async
        assert any(one.name == "aten::sin" for one in seen.function_events)

    workers(2, first)


def message_ids(context_id):
    context = autograd._retrieve_context(context_id)
    return sorted(context._send_functions()), sorted(context._recv_functions())


def test_ids_have_the_worker_in_their_upper_bits_and_pairs_share_theirs():
    """B-41, B-42: 16 bits of worker, 48 of a counter; what one has sent the other has received."""

    def first():
        a, plain = leaf(3.0), torch.ones(1)
        seen = []
        for _ in range(2):
            with autograd.context() as context_id:
                rpc.rpc_sync("worker1", torch.square, (plain,))
                assert message_ids(context_id) == ([], [])  # nothing that requires grad has gone
                rpc.rpc_sync("worker1", torch.square, (a,))
                sent, received = message_ids(context_id)
                there = rpc.rpc_sync("worker1", message_ids, (context_id,))
            assert (received, sent) == there
            assert [number >> 48 for number in sent + received] == [0, 1]
            seen.append(context_id)
        return seen

    one, two = workers(2, first)
    assert one >> 48 == two >> 48 == 0
    assert two > one

    def second():
        return rpc.rpc_sync("worker1", own_context_id)

    assert workers(2, second) >> 48 == 1


def own_context_id():
    with autograd.context() as context_id:
        return context_id


KEPT = {}


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        time.sleep(0.2)
        return g


def slowly_by_the_third(x):
    """On worker 1: the third worker's leaf gets its gradient last of all."""
    return rpc.rpc_sync("worker2", slowly, (x,))


def slowly(x):
    KEPT["leaf"] = leaf(4.0)
    return Slow.apply(KEPT["leaf"]) * x


def kept_gradient(context_id):
    return autograd.get_gradients(context_id)[KEPT["leaf"]].item()


def test_backward_returns_when_the_last_worker_has_its_gradients():
    """B-47."""

    def first():
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", slowly_by_the_third, (torch.tensor([5.0]),))
            autograd.backward(context_id, [y.sum()])
            return rpc.rpc_sync("worker2", kept_gradient, (context_id,))

    assert workers(3, first) == 5.0


class Watched(torch.optim.SGD):
    """Notes who steps while another does, and fails where it is told to."""

    inside, most, done, fails = 0, 0, [], ()

    def step(self, closure=None):
        Watched.inside += 1
        Watched.most = max(Watched.most, Watched.inside)
        time.sleep(0.02)
        Watched.inside -= 1
        if dist.get_rank() in Watched.fails:
            raise ArithmeticError(f"of worker {dist.get_rank()}")
        Watched.done.append(dist.get_rank())
        return super().step(closure)


def own_parameter():
    return rpc.RRef(torch.full((1,), 2.0, requires_grad=True))


def stepped(optimizer_class, times, fails=()):
    """Several threads' steps, on workers 1 and 2; the first error, if there is one."""
    Watched.inside, Watched.most, Watched.done, Watched.fails = 0, 0, [], fails

    def first():
        parameters = [rpc.rpc_sync(k, own_parameter) for k in (1, 2)]
        optimizer = DistributedOptimizer(optimizer_class, parameters, lr=0.5)
        errors = []

        def step():
            with autograd.context() as context_id:
                x, y = (parameter.to_here() for parameter in parameters)
                autograd.backward(context_id, [(x + y).sum()])
                try:
                    optimizer.step(context_id)
                except ArithmeticError as error:
                    errors.append(error)

        threads = [threading.Thread(target=copy_context().run, args=(step,)) for _ in range(times)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return errors, [parameter.to_here().item() for parameter in parameters]

    return workers(3, first)


def test_steps_that_come_together_are_made_one_after_another():
    """B-58."""
    errors, values = stepped(Watched, 4)
    assert errors == []
    assert values == [0.0, 0.0]  # 2 - 4 * 0.5 * 1
    assert sorted(Watched.done) == [1] * 4 + [2] * 4
    assert Watched.most == 1


def test_an_error_of_one_optimizer_is_raised_when_all_have_answered():
    """B-58."""
    (error,), values = stepped(Watched, 1, fails=(1,))
    assert "of worker 1" in str(error)
    assert values == [2.0, 1.5]
    assert Watched.done == [2]
