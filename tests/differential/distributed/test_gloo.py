"""Programs by two processes, on torch's gloo and on pullback's MPI: the same numbers."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("mpi4py", reason="processes talk by MPI: pullback[mpi]")

PROGRAM = Path(__file__).with_name("program.py")
STRATEGIES = Path(__file__).with_name("strategies.py")
ROOT = Path(__file__).parents[3]


def found_by(command, program=PROGRAM):
    """What rank 0 of two processes prints, which meet by RANK and WORLD_SIZE, and how they end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "MPI"))}
    given = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2"}
    given |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [sys.executable, *command, str(program)],
            env={**known, **given, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    told = [line for line in outputs[0].splitlines() if line.startswith("found ")]
    assert len(told) == 1, outputs
    return json.loads(told[0].removeprefix("found ")), [rank.returncode for rank in ranks]


def flat(value):
    if isinstance(value, list):
        return [number for one in value for number in flat(one)]
    return [value]


def test_one_program_finds_the_same_on_both():
    theirs, _ = found_by([])  # whose ranks may crash as they end, which is not ours to judge
    ours, statuses = found_by(["-m", "pullback", "run"])
    assert statuses == [0, 0]
    assert theirs["collectives"].pop() == ours["collectives"].pop() == [{"rank": 0}, {"rank": 1}]
    assert theirs.keys() == ours.keys()
    for said in ("refused", "meshes", "laid_out"):
        assert theirs.pop(said) == ours.pop(said)
    for part, wanted in theirs.items():
        assert flat(ours[part]) == pytest.approx(flat(wanted), rel=1e-5, abs=1e-6), part


def test_ten_steps_of_every_strategy_have_the_losses_of_gloo_and_of_one_process():
    theirs, _ = found_by([], STRATEGIES)
    ours, statuses = found_by(["-m", "pullback", "run"], STRATEGIES)
    assert statuses == [0, 0]
    assert theirs.keys() == ours.keys()
    assert len(ours) == 16
    for title, losses in ours.items():
        alone = theirs[f"alone, {title.split(', ')[1]}"]
        assert alone[0] > alone[-1] + 0.1
        assert losses == pytest.approx(theirs[title], rel=1e-9), title
        assert losses == pytest.approx(alone, rel=1e-9), title
