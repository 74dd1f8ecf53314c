"""What workers that are processes do in the tests beside: `scenarios.py NAME`."""

import os
import sys
import time
from importlib.util import find_spec

import torch  # pullback: these run under `pullback launch`
import torch.distributed.autograd as dist_autograd
from torch.distributed import rpc
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc.agent import current_agent

RANK = int(os.environ["RANK"])
HELD = {}


def whoami(*args, **kwargs):
    return rpc.get_worker_info().name, args, kwargs


def broken():
    raise KeyError("not there")


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def odd():
    raise OddError(1, 2)


def change(tensor):
    tensor += 1
    return tensor


def raises(kind, text, act):
    """The error that `act` raises; nothing here may keep it, since frames keep references."""
    try:
        act()
    except kind as error:
        return containing(text, error)
    raise AssertionError(f"{kind} expected")


def containing(text, error):
    assert text in str(error), error
    return error


def calls():
    assert rpc.rpc_sync("worker1", whoami, (1,), {"k": 2}) == ("worker1", (1,), {"k": 2})
    assert rpc.rpc_sync(2, whoami)[0] == "worker2"
    assert rpc.rpc_sync("worker0", whoami)[0] == "worker0"
    sparse = torch.eye(3).to_sparse()
    assert rpc.rpc_sync("worker1", torch.add, (sparse, sparse)).to_dense().trace().item() == 6.0
    futures = [rpc.rpc_async("worker2", whoami, (k,)) for k in range(20)]
    assert [future.wait()[1] for future in futures] == [(k,) for k in range(20)]
    nested = rpc.rpc_async("worker1", whoami).then(lambda f: rpc.rpc_sync("worker1", whoami))
    assert nested.wait()[0] == "worker1"
    x = torch.zeros(3, 2).t()
    assert rpc.rpc_sync("worker1", change, (x,)).tolist() == [[1.0] * 3] * 2
    assert x.sum() == 0
    big = torch.arange(1_000_000.0)
    assert torch.equal(rpc.rpc_sync("worker1", change, (big,)), big + 1)
    dtypes = [torch.float16, torch.complex64, torch.bool, torch.int8]
    if find_spec("ml_dtypes") is not None:
        dtypes.append(torch.bfloat16)
    for dtype in dtypes:
        sent = torch.ones(2, dtype=dtype)
        assert rpc.rpc_sync("worker1", torch.clone, (sent,)).dtype == dtype
    assert rpc.rpc_sync("worker1", torch.clone, (torch.zeros(0, 3),)).shape == (0, 3)
    error = raises(KeyError, "not there", lambda: rpc.rpc_sync("worker1", broken))
    assert "On worker 'worker1'" in error.__notes__[0]
    assert "in broken" in error.__notes__[0]
    raises(RuntimeError, "OddError: 1 2", lambda: rpc.rpc_sync("worker1", odd))
    raises(AttributeError, "by name", lambda: rpc.rpc_sync("worker1", lambda: 1))
    begin = time.monotonic()
    late = rpc.rpc_async("worker1", time.sleep, (5.0,), timeout=0.1)
    raises(RuntimeError, "sleep() on 'worker1' was not answered within 0.1 s", late.wait)
    assert time.monotonic() - begin < 4.9


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value


def read(rref):
    return rref.local_value().value if rref.is_owner() else rref.to_here().value


def kept():
    return len(current_agent().kept)


def own_rref(value):
    return rpc.RRef(value)


def references():
    counter = rpc.remote("worker1", Counter, (10,))
    assert counter.rpc_sync().add(5) == 15
    assert counter.rpc_async().add(1).wait() == 16
    assert counter.remote().add(1).to_here() == 17
    assert rpc.rpc_sync("worker1", read, (counter,)) == 17
    assert rpc.rpc_sync("worker2", read, (counter,)) == 17
    assert counter.owner_name() == "worker1"
    counter._get_future().wait()
    assert counter.confirmed_by_owner()
    raises(RuntimeError, "is for the owner, 'worker1'", counter.local_value)
    raises(KeyError, "not there", rpc.remote("worker1", broken).to_here)
    theirs = rpc.rpc_sync("worker2", own_rref, (5,))
    assert theirs.owner_name() == "worker2"
    assert theirs.to_here() == 5
    for worker in ("worker1", "worker2"):
        assert rpc.rpc_sync(worker, kept) <= 3
    del counter, theirs
    until = time.monotonic() + 5
    while any(rpc.rpc_sync(f"worker{k}", kept) for k in (1, 2)):
        assert time.monotonic() < until, "values that nobody refers to stay"
        time.sleep(0.01)


def product_sine(a, b):
    return (a * b).sin()


def chained(a, b):
    return rpc.rpc_sync("worker2", product_sine, (a * 2, b)) + a


def circular(a):
    return rpc.rpc_sync("worker0", product_sine, (a, a)) * a


def hold(*values):
    HELD["w"] = torch.tensor(values, requires_grad=True)


def use_held(x):
    return HELD["w"] * x


def held_gradient(context_id):
    return dist_autograd.get_gradients(context_id)[HELD["w"]]


def contexts_here():
    return dist_autograd._get_debug_info()["num_autograd_contexts"]


def gradients():
    a = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    rpc.rpc_sync("worker1", hold, (2.0, 3.0))
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", chained, (a, b))
        z = rpc.rpc_sync("worker1", circular, (y * a,))
        rpc.rpc_sync("worker2", product_sine, (a, b))  # which nobody uses
        w = rpc.remote("worker1", use_held, (a,)).to_here()
        dist_autograd.backward(context_id, [z.sum(), (y * b).sum(), w.sum()])
        found = dist_autograd.get_gradients(context_id)
        assert rpc.rpc_sync("worker1", held_gradient, (context_id,)).tolist() == [1.0, 2.0]
    y = product_sine(a * 2, b) + a
    z = product_sine(y * a, y * a) * (y * a)
    (z.sum() + (y * b).sum() + (torch.tensor([2.0, 3.0]) * a).sum()).backward()
    assert torch.allclose(found[a], a.grad, rtol=1e-12)
    assert torch.allclose(found[b], b.grad, rtol=1e-12)
    assert [rpc.rpc_sync(f"worker{k}", contexts_here) for k in range(3)] == [0, 0, 0]


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise ValueError("formula failed")


def failing(x):
    return Failing.apply(x)


def formula():
    a = torch.tensor([1.0], requires_grad=True)
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", failing, (a,))
        error = raises(
            RuntimeError,
            "on worker1: ValueError: formula failed",
            lambda: dist_autograd.backward(context_id, [y.sum()]),
        )
        assert isinstance(error.__cause__, ValueError)
        assert rpc.rpc_sync("worker1", dist_autograd._get_debug_info) == {
            "num_autograd_contexts": 1,
            "num_current_backward_passes": 0,
        }
        dist_autograd.backward(context_id, [rpc.rpc_sync("worker1", torch.square, (a,)).sum()])
        assert dist_autograd.get_gradients(context_id)[a].item() == 2.0


class Layer:
    def __init__(self):
        self.weight = torch.full((2,), 2.0, requires_grad=True)

    def forward(self, x):
        return self.weight * x

    def parameter(self):
        return rpc.RRef(self.weight)


def optimizers():
    layers = [rpc.remote(f"worker{k}", Layer) for k in (1, 2)]
    parameters = [layer.rpc_sync().parameter() for layer in layers]
    optimizer = DistributedOptimizer(torch.optim.SGD, parameters, lr=0.5)
    x = torch.tensor([1.0, 3.0])
    a = torch.full((2,), 2.0, requires_grad=True)
    b = torch.full((2,), 2.0, requires_grad=True)
    plain = torch.optim.SGD([a, b], lr=0.5)
    for _ in range(2):
        with dist_autograd.context() as context_id:
            y = layers[1].rpc_sync().forward(layers[0].rpc_sync().forward(x))
            dist_autograd.backward(context_id, [y.sum()])
            optimizer.step(context_id)
        plain.zero_grad()
        (a * x * b).sum().backward()
        plain.step()
    assert [one.to_here().tolist() for one in parameters] == [a.tolist(), b.tolist()]


def profiled():
    with torch.autograd.profiler.profile() as seen:
        rpc.rpc_sync("worker1", product_sine, (torch.ones(2), torch.ones(2)))
        rpc.rpc_async("worker1", torch.square, (torch.ones(2),)).wait()
        kept_there = rpc.remote("worker1", torch.square, (torch.ones(2),))
        kept_there._get_future().wait()
    events = {event.name: event for event in seen.function_events}
    name = "rpc_sync#product_sine(worker0 -> worker1)"
    assert events[name].is_async
    there = events[f"{name}#remote_op: aten::sin"]
    assert there.is_remote
    assert there.node_id == 1
    assert events[name].time_range.start <= there.time_range.start
    assert there.time_range.end <= events[name].time_range.end
    assert "rpc_async#square(worker0 -> worker1)" in events
    assert "remote#square(worker0 -> worker1)" in events
    assert rpc.rpc_sync("worker1", torch.autograd._profiler_enabled) is False


def everything():
    for one in (calls, references, gradients, formula, optimizers, profiled):
        one()


def die():
    os._exit(3)


def slow_death():
    time.sleep(0.3)
    os._exit(3)


class Deadly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        os._exit(3)


def deadly(x):
    return Deadly.apply(x)


def deaths():
    """Worker 1 dies in a call, worker 2 in a backward pass; worker 0 tells, and goes on."""
    begin = time.monotonic()
    waiting = rpc.rpc_async("worker1", time.sleep, (30,))
    raises(RuntimeError, "worker 'worker1' died", lambda: rpc.rpc_sync("worker1", slow_death))
    raises(RuntimeError, "worker 'worker1' died", waiting.wait)
    raises(RuntimeError, "worker 'worker1' is gone", lambda: rpc.rpc_sync("worker1", whoami))
    a = torch.tensor([1.0], requires_grad=True)
    with dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker2", deadly, (a,))
        raises(
            RuntimeError,
            "worker 'worker2' died",
            lambda: dist_autograd.backward(context_id, [y.sum()]),
        )
        assert dist_autograd.get_gradients(context_id) == {}
    assert contexts_here() == 0
    raises(RuntimeError, "rpc.shutdown(): worker 'worker1' died", rpc.shutdown)
    assert time.monotonic() - begin < 5
    sys.stdout.write("worker 0 lives\n")  # `print` writes in two pieces
    sys.stdout.flush()


def main(name):
    if name == "deaths":
        rpc.init_rpc(f"worker{RANK}", timeout=20)
        if RANK == 0:
            deaths()
        else:
            time.sleep(30)
        return
    rpc.init_rpc(
        f"worker{RANK}",
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=20),
    )
    if RANK == 0:
        globals()[name]()
    rpc.shutdown()
    sys.stdout.write(f"worker {RANK} did {name}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
