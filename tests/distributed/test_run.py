"""`torch.distributed.run`: what torchrun calls, by hand and as a module."""

import subprocess
import sys
from pathlib import Path

import pytest

from pullback.distributed.elastic.multiprocessing.errors import ChildFailedError
from pullback.distributed.run import get_args_parser, parse_args, run

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, sys
print(os.environ["RANK"], os.environ["WORLD_SIZE"], sys.argv[1:], flush=True)
sys.exit(int(sys.argv[1]) if os.environ["RANK"] == "1" else 0)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return str(path)


def options(script, status):
    """For ranks that need nothing of pullback, which starts slowly."""
    given = ["--nproc_per_node=2", "--standalone", "--no-python", sys.executable]
    return parse_args([*given, script, str(status)])


def test_ranks_get_the_words_after_the_script(script, capfd):
    run(options(script, 0))
    assert sorted(capfd.readouterr().out.splitlines()) == ["0 2 ['0']", "1 2 ['0']"]


def test_failed_ranks_are_told_by_what_is_raised(script, monkeypatch):
    monkeypatch.setattr("pullback.distributed.launching.job.GRACE", 0.2)
    with pytest.raises(ChildFailedError) as raised:
        run(options(script, 3))
    rank, failure = raised.value.get_first_failure()
    assert (rank, failure.local_rank, failure.exitcode) == (1, 1, 3)


def test_options_may_be_set_on_what_was_parsed(script, capfd):
    """As programs do that launch others: numbers where words are parsed, None where nothing is."""
    given = get_args_parser().parse_args([script])
    given.nproc_per_node, given.master_port, given.max_restarts = 2, None, 0
    given.no_python, given.training_script = True, sys.executable
    given.training_script_args = [script, "0"]
    run(given)
    assert sorted(capfd.readouterr().out.splitlines()) == ["0 2 ['0']", "1 2 ['0']"]


def test_it_runs_as_a_module_in_torchs_place(script):
    command = [sys.executable, "-m", "pullback", "run", "-m", "torch.distributed.run"]
    ended = subprocess.run(
        [*command, "-n", "1", script, "0"], capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, ended.stdout) == (0, "0 1 ['0']\n"), ended.stderr
