"""Ranks that are processes: under mpiexec, under `pullback launch`, and by RANK and WORLD_SIZE."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pullback.distributed import pmi

pytest.importorskip("mpi4py", reason="processes talk by MPI: pullback[mpi]")

SCRIPT = Path(__file__).with_name("scenarios.py")
ROOT = Path(__file__).parents[3]
HERE = Path(sys.executable).parent
MPIEXEC = shutil.which("mpiexec", path=f"{HERE}{os.pathsep}{os.environ['PATH']}")
PYTHON = [sys.executable, "-m", "pullback"]


def environment(**more):
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "MPI"))}
    path = os.pathsep.join([str(ROOT), known.get("PYTHONPATH", "")])
    return {**known, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def finished(command, **more):
    """Exit status, all output, and seconds."""
    started = time.monotonic()
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        env=environment(**more),
        check=False,
    )
    return done.returncode, done.stdout, time.monotonic() - started


def launch(ranks, name, *options):
    return finished([*PYTHON, "launch", "-n", str(ranks), *options, str(SCRIPT), name])


@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")
@pytest.mark.parametrize("ranks", [2, 3])
def test_under_mpiexec(ranks):
    """B-1, B-5."""
    name = "everything"
    status, output, _ = finished([MPIEXEC, "-n", str(ranks), *PYTHON, "run", str(SCRIPT), name])
    assert status == 0, output
    assert all(f"rank {k} of {ranks} did {name}" in output for k in range(ranks))


@pytest.mark.parametrize("ranks", [2, 4])
def test_under_the_launcher(ranks):
    """B-1, B-5."""
    name = "everything"
    status, output, _ = launch(ranks, name)
    assert status == 0, output
    assert all(f"rank {k} of {ranks} did {name}" in output for k in range(ranks))


def test_by_rank_and_world_size_alone():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [*PYTHON, "run", str(SCRIPT), "collectives"],
            env=environment(RANK=str(rank), **given),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert "rank 1 of 2 did collectives" in outputs[1]


def stale():
    """Shared memory of jobs that have ended; tests beside this one may run jobs of their own."""
    there = {str(path) for path in Path("/dev/shm").glob("mpich_shm_*")}
    used = (pmi.shared_memory(path.name) for path in Path("/proc").glob("[0-9]*"))
    return there.difference(*used)


def leaves_nothing(before):
    """Whether all that is stale was so before; what is being made is nobody's for a moment."""
    until = time.monotonic() + 5
    while not (clean := stale() <= before) and time.monotonic() < until:
        time.sleep(0.05)
    return clean


# Seconds for the failure itself, and for the processes to start on a machine that is busy.
START = 40


def test_mismatch_is_told_by_every_rank():
    status, output, seconds = launch(2, "mismatch")
    assert status == 1
    assert seconds < 5 + START
    for rank in range(2):
        assert f"rank {rank}: the ranks of the default group do not make the same call" in output
    assert "rank 0: all_reduce #0 (float32[1] SUM)" in output
    assert "rank 1: all_reduce #0 (float32[2] SUM)" in output


def test_an_exception_on_one_rank_ends_the_job():
    status, output, seconds = launch(3, "exception")
    assert status == 1
    assert seconds < 5 + START
    assert "rank 1: ended by ValueError: boom; the job is aborted" in output
    assert "pullback launch: rank 1 exited with status 1" in output


def test_a_death_is_told_by_the_launcher():
    """B-5."""
    before = stale()
    status, output, seconds = launch(3, "death")
    assert status == 3
    assert seconds < 5 + START
    assert "pullback launch: rank 1 exited with status 3; the others are ended" in output
    assert leaves_nothing(before)


def test_a_late_rank_is_named():
    """B-9."""
    status, output, seconds = launch(3, "late")
    assert status == 1
    assert seconds < 2 + 5 + START
    assert "all_reduce #0 (float32[2] SUM) of the default group waited 2.0 s for rank 1" in output


@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")
def test_an_exception_ends_a_job_of_mpiexec_too():
    before = stale()
    status, output, seconds = finished(
        [MPIEXEC, "-n", "2", *PYTHON, "run", str(SCRIPT), "exception"]
    )
    assert status != 0
    assert seconds < 5 + START
    assert "rank 1: ended by ValueError: boom; the job is aborted" in output
    assert leaves_nothing(before)
