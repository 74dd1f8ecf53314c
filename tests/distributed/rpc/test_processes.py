"""Workers that are processes: calls, references, gradients and deaths, over sockets."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pullback.distributed as dist
from pullback.distributed import rpc
from pullback.distributed.rpc.agent import Agent, Directory, WorkerInfo
from pullback.distributed.rpc.sockets import Door

SCRIPT = Path(__file__).with_name("scenarios.py")
ROOT = Path(__file__).parents[3]
PYTHON = [sys.executable, "-m", "pullback"]
START = 40  # seconds for processes to start on a machine that is busy


def environment(**more):
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "MPI"))}
    path = os.pathsep.join([str(ROOT), known.get("PYTHONPATH", "")])
    return {**known, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def launch(ranks, name):
    started = time.monotonic()
    done = subprocess.run(
        [*PYTHON, "launch", "-n", str(ranks), str(SCRIPT), name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        env=environment(),
        check=False,
    )
    return done.returncode, done.stdout, time.monotonic() - started


def test_calls_references_gradients_optimizers_and_profiles_cross_processes():
    """B-40 to B-47, B-58, B-59."""
    status, output, _ = launch(3, "everything")
    assert status == 0, output
    assert all(f"worker {k} did everything" in output for k in range(3))


def test_a_worker_that_dies_is_named_and_the_caller_lives():
    """B-51, B-52."""
    status, output, seconds = launch(3, "deaths")
    assert status == 3, output
    assert "worker 0 lives" in output
    assert "rank 1 exited with status 3" in output
    assert seconds < 5 + START


def test_workers_meet_by_a_file_without_any_launcher(tmp_path):
    code = f"""
import sys
from pullback.distributed import rpc
rank = int(sys.argv[1])
options = rpc.RpcBackendOptions(20, "file://{tmp_path}/met")
rpc.init_rpc(f"w{{rank}}", rank=rank, world_size=2, rpc_backend_options=options)
if rank == 0:
    print(rpc.rpc_sync("w1", max, ([3, 4],)))
rpc.shutdown()
"""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    assert outputs[0] == "4\n"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_worker_that_never_comes_is_named_in_time():
    options = rpc.RpcBackendOptions(0.3, f"tcp://127.0.0.1:{free_port()}")
    started = time.monotonic()
    with pytest.raises(dist.DistNetworkError, match="worker 1 of 2 did not come in time"):
        rpc.init_rpc("w0", rank=0, world_size=2, rpc_backend_options=options)
    assert time.monotonic() - started < 5
    with pytest.raises(ValueError, match="rank, world_size or the address"):
        rpc.init_rpc("w0", rpc_backend_options=rpc.RpcBackendOptions(1.0, "tcp://127.0.0.1:1"))
    with pytest.raises(ValueError, match=r"env://, tcp://host:port or file"):
        rpc.init_rpc("w0", rank=0, world_size=1, rpc_backend_options=rpc.RpcBackendOptions(1, "x"))


def test_one_worker_alone_calls_itself():
    options = rpc.RpcBackendOptions(5, f"tcp://127.0.0.1:{free_port()}")
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
    assert rpc.rpc_sync("alone", max, ([1, 2],)) == 2
    assert rpc.remote(0, max, ([1, 2],)).to_here() == 2
    rpc.shutdown()
    with pytest.raises(RuntimeError, match=r"init_rpc\(\) first"):
        rpc.rpc_sync("alone", max, ([1, 2],))


def test_who_does_not_know_the_secret_is_not_listened_to():
    door = Door("127.0.0.1", b"secret")
    agent = Agent(WorkerInfo("w", 0), Directory(), 5.0)
    door.open(agent)
    try:
        for said in (b"\0\0\0\0\0\0\0\6wrong!", b"\xff" * 64):
            with socket.create_connection(("127.0.0.1", door.port), 5) as stranger:
                stranger.sendall(said)
                with contextlib.suppress(ConnectionResetError):
                    assert stranger.recv(1) == b""
    finally:
        agent.die("the test is over")
        door.close()
