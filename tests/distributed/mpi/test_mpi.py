"""Ranks that are processes: under mpiexec, under `pullback launch`, and by RANK and WORLD_SIZE."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pullback.distributed.meeting import pmi

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


class Told:
    """How a job ended, and what it said, line by line with the time of each."""

    def __init__(self, command, **more):
        self.lines = []
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(**more),
        )
        stop = threading.Timer(120, process.kill)
        stop.start()
        with process:
            for line in process.stdout:
                self.lines.append((time.monotonic(), line))
        self.ended = time.monotonic()
        stop.cancel()
        stop.join()
        self.status = process.returncode
        self.output = "".join(line for _, line in self.lines)

    def failed(self, within=5.0):
        """The lines that came in time after the first rank failed, and the end with them."""
        begin = next(at for at, line in self.lines if line.endswith("fails now\n"))
        assert self.ended - begin < within + END, self.output
        return "".join(line for at, line in self.lines if begin <= at < begin + within)


def launch(ranks, name, *options):
    return Told([*PYTHON, "launch", "-n", str(ranks), *options, str(SCRIPT), name])


@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")
@pytest.mark.parametrize("ranks", [2, 3])
def test_under_mpiexec(ranks):
    """B-1, B-5."""
    name = "everything"
    job = Told([MPIEXEC, "-n", str(ranks), *PYTHON, "run", str(SCRIPT), name])
    assert job.status == 0, job.output
    assert all(f"rank {k} of {ranks} did {name}" in job.output for k in range(ranks))


@pytest.mark.parametrize("ranks", [2, 4])
def test_under_the_launcher(ranks):
    """B-1, B-5."""
    name = "everything"
    job = launch(ranks, name)
    assert job.status == 0, job.output
    assert all(f"rank {k} of {ranks} did {name}" in job.output for k in range(ranks))


@pytest.mark.parametrize("ranks", [2, 4])
def test_sharded_training_gives_one_processs_losses(ranks):
    job = launch(ranks, "sharded")
    assert job.status == 0, job.output


@pytest.mark.parametrize(
    "ranks",
    [
        2,
        pytest.param(
            4,
            marks=pytest.mark.skipif(
                "PULLBACK_TEST_HOSTS" not in os.environ, reason="long: make test-distributed"
            ),
        ),
    ],
)
def test_matrices_and_sequences_in_parts_give_one_processs_losses(ranks):
    job = launch(ranks, "parallel")
    assert job.status == 0, job.output


def test_without_fingerprints_the_same_calls_work(monkeypatch):
    """B-4."""
    monkeypatch.setenv("PULLBACK_DISTRIBUTED_DEBUG", "OFF")
    job = launch(2, "everything")
    assert job.status == 0, job.output


@pytest.mark.parametrize("method", [None, "tcp", "file"])
def test_without_a_launcher(method, tmp_path):
    """B-1: by RANK and WORLD_SIZE, by an address, by a file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    url = {"tcp": f"tcp://127.0.0.1:{port}", "file": f"file://{tmp_path}/met"}.get(method)
    ranks = [
        subprocess.Popen(
            [*PYTHON, "run", str(SCRIPT), "collectives", *([url] if url else [])],
            env=environment(RANK=str(rank), **(given if url is None else {})),
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


# Seconds that a launcher may take to end ranks which do not end by themselves.
END = 5


def each_says(told, ranks, text):
    """Whether each of the ranks has said that, by its name."""
    return all(re.search(rf"rank {rank}: .*{text}", told) for rank in ranks)


def test_mismatch_is_told_by_every_rank():
    """B-4."""
    job = launch(2, "mismatch")
    assert job.status == 1
    told = job.failed()
    assert each_says(told, range(2), "the ranks of the default group do not make the same call")
    assert "rank 0: all_reduce #0 (float32[1] SUM)" in told
    assert "rank 1: all_reduce #0 (float32[2] SUM)" in told


def test_an_exception_on_one_rank_ends_the_job():
    """B-5."""
    job = launch(3, "exception")
    assert job.status == 1
    told = job.failed()
    assert "rank 1: ended by ValueError: boom; the job is aborted" in told
    assert each_says(told, (0, 2), "rank 1 is gone; the job is aborted")
    assert "pullback launch: rank 1 exited with status 1" in told


@pytest.mark.parametrize(
    ("name", "status", "how"),
    [("death", 3, "exited with status 3"), ("killed", 137, "was killed by SIGKILL")],
)
def test_a_death_is_told_by_every_survivor_and_by_the_launcher(name, status, how):
    """B-5."""
    before = stale()
    job = launch(3, name)
    assert job.status == status
    told = job.failed()
    assert f"pullback launch: rank 1 {how}; the others are ended" in told
    assert each_says(told, (0, 2), "rank 1 is gone; the job is aborted")
    assert leaves_nothing(before)


def test_a_rank_that_ends_early_is_named_at_once():
    job = launch(2, "early")
    assert job.status == 1
    told = job.failed()
    assert (
        "rank 0: all_reduce #2 (float32[2] SUM) of the default group cannot finish: rank 1" in told
    )


def test_ranks_that_leave_without_a_word_leave_no_memory_behind():
    """As forked ranks do, which end by os._exit."""
    before = stale()
    job = launch(2, "without_goodbye")
    assert job.status == 0, job.output
    assert "is gone" not in job.output
    assert leaves_nothing(before)


def test_a_late_rank_is_named():
    """B-9."""
    job = launch(3, "late")
    assert job.status == 1
    told = job.failed(2 + 5)
    text = r"all_reduce #1 \(float32\[2\] SUM\) of the default group waited 2.0 s for rank 1"
    assert each_says(told, (0, 2), f"({text}|rank [02] is gone)")
    assert re.search(text, told)


def test_who_comes_when_the_others_have_given_up_is_told_so(tmp_path):
    """It does not wait for them, and the group can be used again."""
    job = Told(
        [*PYTHON, "launch", "-n", "2", str(SCRIPT), "too_late"], GIVEN_UP=str(tmp_path / "x")
    )
    assert job.status == 0, job.output
    assert "rank 0: all_reduce #0 (float32[2] SUM)" in job.output
    assert "waited 3.0 s for rank 1, which did not come" in job.output
    assert "comes too late: rank 0 waited for it, and gave up" in job.output
    assert "rank 1 of 2 did too_late" in job.output


@pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")
def test_an_exception_ends_a_job_of_mpiexec_too():
    before = stale()
    job = Told([MPIEXEC, "-n", "2", *PYTHON, "run", str(SCRIPT), "exception"])
    assert job.status != 0
    assert "rank 1: ended by ValueError: boom; the job is aborted" in job.failed()
    assert leaves_nothing(before)
