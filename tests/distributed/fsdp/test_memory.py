"""What sharding is for: each rank needs its part, and little beside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("memory.py")
ROOT = Path(__file__).parents[3]


def peak(ranks):
    given = {"PYTHONPATH": str(ROOT), "PULLBACK_KEEP_MEMORY": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(ranks)],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no peak of a while")
def test_a_rank_of_four_needs_a_third_of_one_process_at_most():
    alone = peak(1)
    assert alone > 200  # four times the parameters, with what Adam keeps
    assert peak(4) <= 0.35 * alone
