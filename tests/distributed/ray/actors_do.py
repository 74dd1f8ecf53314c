"""What ranks that are Ray actors do in the tests beside."""

import os
import time

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import autograd, checkpoint, rpc


def whoami(*args):
    return rpc.get_worker_info().name, args


def broken():
    raise KeyError("not there")


def product_sine(a, b):
    return (a * b).sin()


def chained(a, b):
    return rpc.rpc_sync("worker0", product_sine, (a * 2, b)) + a


def change(tensor):
    tensor += 1
    return tensor


def contexts_here():
    return autograd._get_debug_info()["num_autograd_contexts"]


def raises(kind, text, act):
    with pytest.raises(kind) as caught:
        act()
    assert text in str(caught.value)
    return caught.value


def worker(first):
    """Rank 0 does something while the others serve."""
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", timeout=30)
    try:
        return first() if rank == 0 else None
    finally:
        rpc.shutdown()


def calls():
    assert rpc.rpc_sync("worker1", whoami, (1,)) == ("worker1", (1,))
    futures = [rpc.rpc_async("worker1", whoami, (k,)) for k in range(10)]
    assert [future.wait()[1] for future in futures] == [(k,) for k in range(10)]
    assert rpc.rpc_sync("worker1", change, (torch.zeros(2),)).add_(1).tolist() == [2.0, 2.0]
    error = raises(KeyError, "not there", lambda: rpc.rpc_sync("worker1", broken))
    assert "On worker 'worker1'" in error.__notes__[0]
    assert rpc.remote("worker1", max, ([1, 2],)).to_here() == 2
    return "called"


def gradients():
    a = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    with autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", chained, (a, b))
        autograd.backward(context_id, [y.sum()])
        found = autograd.get_gradients(context_id)
    (product_sine(a * 2, b) + a).sum().backward()
    assert torch.equal(found[a], a.grad)
    assert torch.equal(found[b], b.grad)
    assert [rpc.rpc_sync(f"worker{k}", contexts_here) for k in range(2)] == [0, 0]
    times = []
    for _ in range(30):
        with autograd.context() as context_id:
            y = rpc.rpc_sync("worker1", product_sine, (a, b))
            begin = time.perf_counter()
            autograd.backward(context_id, [y.sum()])
            times.append(time.perf_counter() - begin)
    return sorted(times)[15]


def everything():
    return calls(), gradients()


def die():
    os._exit(3)


def survive():
    """Rank 1 dies under a call: rank 0 is told who, at once."""
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", timeout=30)
    if rank == 1:
        time.sleep(60)
    begin = time.monotonic()
    error = raises(RuntimeError, "worker 'worker1' died", lambda: rpc.rpc_sync("worker1", die))
    seconds = time.monotonic() - begin
    assert seconds < 5
    raise RuntimeError(f"rank 0 saw that {error}")


def train(directory, steps, dies_at):
    """Data parallel steps with a checkpoint after each; rank 1 dies once, if it is told to."""
    dist.init_process_group("mpi", timeout=60)
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begin, known = 0, checkpoint.latest(directory)
    if known is not None:
        begin = int(os.path.basename(str(known)).split("_")[1])
        checkpoint.load(model.state_dict(), checkpoint_id=known)
    for step in range(begin, steps):
        if step == dies_at and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os._exit(9)
        generator = torch.Generator().manual_seed(100 * step + rank)
        optimizer.zero_grad()
        parallel(torch.randn(5, 4, generator=generator)).square().mean().backward()
        optimizer.step()
        checkpoint.save(model.state_dict(), checkpoint_id=f"{directory}/step_{step + 1}")
    bits = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    return begin, bits
