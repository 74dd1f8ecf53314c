"""Collectives and data parallel on two ranks, torch's gloo against ours on MPI.

    python -m benchmarks.distributed [--ranks 2] [--rounds 7]

The same worker runs on both, in processes that find one another by RANK and WORLD_SIZE; ours are
started by mpiexec where there is one. A quiet machine with more cores than ranks is needed for
figures that mean something: MPI polls.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

SIZES = {"all_reduce 1 kB": 256, "all_reduce 1 MB": 1 << 18, "all_reduce 64 MB": 1 << 24}
# torch's time over ours, at least, at 2 ranks on a quiet machine.
BARS = {
    "all_reduce 1 kB": 77.0,
    "all_reduce 1 MB": 9.3,
    "all_reduce 64 MB": 4.2,
    "DDP step, MLP of 11.7 MB": 1.52,
    "fully_shard step, the same": 1.0,
    "start, by the launcher": 8.2,
}


def _median(act: Callable[[], Any], repeats: int, rounds: int) -> float:
    act()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(repeats):
            act()
        times.append((time.perf_counter() - started) / repeats)
    return statistics.median(times)


def _perceptron(torch: Any) -> Any:
    layers = [torch.nn.Linear(784, 1024), torch.nn.ReLU()]
    for _ in range(2):
        layers += [torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10))


def worker(side: str, rounds: int) -> None:
    """One rank: measure, and let rank 0 print."""
    torch: Any = __import__("torch" if side == "torch" else "pullback")
    if side == "torch":
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel

        torch.set_num_threads(1)
    else:
        import pullback.distributed as dist
        from pullback.distributed.fsdp import fully_shard
        from pullback.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    found = {}
    for name, size in SIZES.items():
        x = torch.zeros(size)
        repeats = max(1, 20_000_000 // (size * 80 + 99999))
        found[name] = _median(lambda x=x: dist.all_reduce(x), repeats, rounds)
    x, y = torch.randn(128, 784), torch.randint(0, 10, (128,))

    def steps(net: Any) -> float:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()

        seconds = _median(step, 5, rounds)
        dist.barrier()
        return seconds

    model = _perceptron(torch)
    found["DDP step, MLP of 11.7 MB"] = steps(DistributedDataParallel(model))
    found["the same without DDP"] = steps(model)
    model = _perceptron(torch)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (*(one for one in model if isinstance(one, torch.nn.Linear)), model):
        fully_shard(part, mesh=mesh)
    found["fully_shard step, the same"] = steps(model)
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def started(side: str, ranks: int) -> float:
    """Seconds for a job that joins its ranks, reduces once and ends, by the library's launcher."""
    program = (
        "import torch, torch.distributed as dist; dist.init_process_group('gloo'); "
        "dist.all_reduce(torch.ones(1)); dist.barrier(); dist.destroy_process_group()"
    )
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "job.py")
        with open(script, "w") as file:
            file.write(program)
        module = ["torch.distributed.run"] if side == "torch" else ["pullback_command", "launch"]
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", *module, f"--nproc-per-node={ranks}", script],
            check=True,
            capture_output=True,
            timeout=200,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        return time.perf_counter() - begin


def hooks() -> float:
    """Processor time of a backward pass with a hook on each leaf, over one without."""
    import pullback as torch

    def net() -> Any:
        layers = [torch.nn.Linear(784, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)]
        return torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(1024, 10))

    nets = [net(), net()]
    for parameter in nets[1].parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: None)
    x = torch.randn(128, 784)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(25):
        for own, model in zip(times, nets, strict=True):
            model.zero_grad()
            loss = model(x).square().mean()
            begin = time.process_time()
            loss.backward()
            own.append(time.process_time() - begin)
    return statistics.median(times[1]) / statistics.median(times[0])


def remote() -> float:
    """Milliseconds of a distributed backward pass through one call, between threads."""
    import pullback as torch
    import pullback.distributed as dist
    from pullback.distributed import autograd, rpc

    def main() -> float:
        rpc.init_rpc(f"worker{dist.get_rank()}")
        times = [0.0]
        x = torch.ones(2, requires_grad=True)
        for _ in range(300 if dist.get_rank() == 0 else 0):
            with autograd.context() as number:
                y = rpc.rpc_sync("worker1", torch.sin, (x,)).sum()
                begin = time.perf_counter()
                autograd.backward(number, [y])
                times.append(time.perf_counter() - begin)
        rpc.shutdown()
        return statistics.median(times) * 1e3

    return float(dist.threads.run(main, 2)[0])


def measured(side: str, ranks: int, rounds: int) -> dict[str, float]:
    """Start the ranks of one side, and read what rank 0 found."""
    command = [sys.executable, "-m", "benchmarks.distributed", "--worker", side]
    command += ["--rounds", str(rounds)]
    one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    here = os.path.dirname(sys.executable)
    mpiexec = shutil.which("mpiexec", path=f"{here}{os.pathsep}{os.environ['PATH']}")
    if side == "pullback" and mpiexec is not None:
        one |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        starts = [([mpiexec, "-n", str(ranks), *command], one)]
    else:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        one |= {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        starts = [(command, {**one, "RANK": str(rank)}) for rank in range(ranks)]
    processes = [
        subprocess.Popen(start, env=environment, stdout=subprocess.PIPE, text=True)
        for start, environment in starts
    ]
    outputs = [process.communicate(timeout=500)[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"benchmarks.distributed: a rank of {side} failed.")
    return dict(json.loads(outputs[0].strip().splitlines()[-1]))


def main() -> None:
    """Print torch's times, ours, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker", choices=("torch", "pullback"))
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.rounds)
        return
    theirs, ours = (measured(side, given.ranks, given.rounds) for side in ("torch", "pullback"))
    print(f"{'':28s}{'torch gloo':>12s}{'pullback':>12s}{'ratio':>8s}   bar")
    for name, seconds in theirs.items():
        ratio = seconds / ours[name]
        bar = f">= {BARS[name]:g}" if name in BARS else ""
        print(f"{name:28s}{seconds * 1e3:9.3f} ms{ours[name] * 1e3:9.3f} ms{ratio:8.2f}   {bar}")
    rounds = [(started("torch", given.ranks), started("pullback", given.ranks)) for _ in range(3)]
    slow, fast = (statistics.median(one) for one in zip(*rounds, strict=True))
    name = "start, by the launcher"
    bar = f">= {BARS[name]:g}"
    print(f"{name:28s}{slow:10.2f} s{fast:11.2f} s{slow / fast:8.2f}   {bar}")
    print(f"{'backward, hooks on leaves':28s}{'':24s}{hooks():8.2f}   <= 1.05 of one without")
    print(f"{'backward through one call':28s}{'':12s}{remote():9.3f} ms{'':8s}   <= 1 ms, threads")


if __name__ == "__main__":
    main()
