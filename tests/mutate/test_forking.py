"""Changes tried in forks find what those tried in a copy find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SOURCE = '''\
from pkg.late import made

TEXT = """\\
def least(a, b):
    if a < b:
        return a
    return b
"""


class Holder:
    @property
    def held(self):
        return (lambda x: x + 1)(2)


def least(a, b):
    return made(TEXT)["least"](a, b)


def twice(a):
    return a + a


SIZE = 3
'''
LATE = """\
def made(text):
    scope = {}
    exec(text, scope)
    return scope
"""
TESTS = """\
import pytest

from pkg.thing import SIZE, Holder, least, twice


@pytest.mark.filterwarnings("ignore:never told")
def test_least():
    assert least(1, 2) == 1


def test_held():
    assert Holder().held == 3


def test_twice_of_nothing():
    assert twice(0) == 0


def test_size():
    assert SIZE == 3
"""
PROGRAM = """\
import sys
from pathlib import Path
from mutate.__main__ import main

main(["pkg/thing.py", "--tests", "tests", "--seconds", "60", *sys.argv[1:]], Path.cwd())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_in_forks_the_same_survives_as_in_a_copy(tmp_path):
    for name, text in {
        "pkg/__init__.py": "",
        "pkg/late.py": LATE,
        "pkg/thing.py": SOURCE,
        "tests/test_thing.py": TESTS,
        "pyproject.toml": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    said = []
    for more in ([], ["--forked"]):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, *more],
            cwd=tmp_path,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        lines = [one.partition("  (")[0] for one in run.stdout.splitlines()]
        said.append({one for one in lines if one.startswith("survived") or "% survive" in one})
    assert said[0] == said[1]
    assert "survived: pkg/thing.py:22: '+' -> '-'" in said[1]
