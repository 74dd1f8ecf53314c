"""`python -m torch.distributed.run` is the launcher."""

import os
import subprocess
import sys
from pathlib import Path


def test_ranks_are_started_by_the_name_of_the_module():
    program = "import os; os.write(1, os.environ['RANK'].encode())"
    run = ["-m", "pullback.distributed.run", "--nproc-per-node", "2", "--no-python"]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    told = subprocess.run(
        [sys.executable, *run, sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert sorted(told) == ["0", "1"]
