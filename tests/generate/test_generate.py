"""The generated files are what the declarations say today."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_generated_files_are_current_else_run_make_generate():
    done = subprocess.run(
        [sys.executable, "-m", "generate", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
