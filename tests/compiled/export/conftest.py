"""A process without pullback, in which exported modules run."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def _process():
    # -B: modules of one name that are written within a second would share their bytecode.
    with subprocess.Popen(
        [sys.executable, "-IB", str(Path(__file__).parent / "alone.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def alone(_process):
    """What a module's program gives for arrays, and the arrays as it left them."""

    def run(path, arrays):
        pickle.dump((str(path), arrays), _process.stdin)
        _process.stdin.flush()
        answer = pickle.load(_process.stdout)
        assert not isinstance(answer, str), answer
        return answer

    return run
