"""What type checkers make of programs that use pullback: nothing right is flagged, mistakes are."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
WRONG = (HERE / "wrong_lines.py").read_text(encoding="utf-8").splitlines()
MARKED = {number for number, line in enumerate(WRONG, 1) if line.endswith("# wrong")}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """File name -> line -> what pyright says there."""
    pytest.importorskip(
        "pyright", reason="pyright is not installed; it comes with the extra `test`"
    )
    folder = tmp_path_factory.mktemp("types")
    for name in ("right_lines.py", "wrong_lines.py"):
        shutil.copy(HERE / name, folder)
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("--pythonpath", sys.executable, "--project", str(folder)),
        ],
        capture_output=True,
        text=True,
    )
    said = {"right_lines.py": {}, "wrong_lines.py": {}}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            lines = said[pathlib.Path(each["file"]).name]
            lines[each["range"]["start"]["line"] + 1] = each["message"]
    return said


def test_lines_that_are_right_are_not_flagged(found):
    assert found["right_lines.py"] == {}


def test_mistakes_are_found_and_nothing_else(found):
    assert found["wrong_lines.py"].keys() == MARKED, found["wrong_lines.py"]
    assert len(MARKED) >= 7
