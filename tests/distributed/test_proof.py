"""Ten steps of each strategy have the losses of one process; so have combinations of them."""

import json
import os
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import numpy
import pytest

import pullback as torch
import pullback.distributed as dist
from tests.distributed import proof

ROOT = Path(__file__).parents[2]
# `make test-distributed` has all of it, `make test` a short form.
ALL = "PULLBACK_TEST_HOSTS" in os.environ
COMBINATIONS = [*product((False, True), repeat=3)] if ALL else [(True, True, False), (True,) * 3]


@cache
def alone(name, cast=None):
    return proof.alone(name, cast)


def same(got, want, tolerance=1e-6):
    numpy.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("way", "ranks"), [*product(proof.WAYS, (2, 4))])
@pytest.mark.parametrize("name", proof.KINDS)
def test_threads_have_the_losses_of_one_process(way, ranks, name):
    for got in dist.threads.run(proof.WAYS[way], ranks, name):
        same(got, alone(name))


@pytest.mark.parametrize("ranks", [2, 4] if ALL else [2])
def test_processes_have_the_losses_of_one(ranks):
    pytest.importorskip("mpi4py", reason="processes talk by MPI: pullback[mpi]")
    job = [sys.executable, "-m", "pullback", "launch", "-n", str(ranks), proof.__file__]
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "MPI"))}
    paths = os.pathsep.join([str(ROOT), known.get("PYTHONPATH", "")])
    env = {**known, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(job, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (x for x in done.stdout.splitlines() if "losses {" in x)
    told = json.loads(line.partition("losses ")[2])
    assert len(told) == 2 * len(proof.WAYS)
    for title, got in told.items():
        same(got, alone(title.split()[1]))


@pytest.mark.parametrize("name", proof.KINDS)
@pytest.mark.parametrize(("again", "compiled", "cast"), COMBINATIONS)
def test_combinations_of_sharding_have_the_losses_of_one_process(name, again, compiled, cast):
    if compiled:
        pytest.importorskip("llvmlite", reason="compiled programs are machine code")
    if cast:
        pytest.importorskip("ml_dtypes", reason="bfloat16 comes from ml_dtypes: pullback[full]")
    dtype = torch.bfloat16 if cast else None
    kind = proof.KINDS[name]

    def run():
        made = proof.combined(kind, again, compiled, shards=True)
        return proof.losses(kind, *made, proof.own_rows(), dtype)

    # Half precision rounds sums of rows otherwise when other ranks have some of them.
    tolerance = 2e-2 if cast else 1e-6
    for got in dist.threads.run(run, 2):
        same(got, alone(name, dtype), tolerance)
