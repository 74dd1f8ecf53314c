"""What type checkers make of programs that use pullback: nothing right is flagged, mistakes are."""

import json
import keyword
import pathlib
import shutil
import subprocess
import sys

import pytest

from generate.types_of import seen_at
from tests.core.test_listing import MODULES, OBJECTS, WANTING, shown

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
WRONG = (HERE / "wrong_lines.py").read_text(encoding="utf-8").splitlines()
# Their modules are each to be imported by its own name, as in torch.
FOLDERS = {
    "pullback.distributed.algorithms",
    "pullback.distributed.algorithms.ddp_comm_hooks",
    "pullback.fx.experimental",
    "pullback.utils.benchmark.utils",
}
MARKED = {number for number, line in enumerate(WRONG, 1) if line.endswith("# wrong")}


def every_name():
    """A line for each public name of each public module."""
    for number, name in enumerate(sorted(MODULES.keys() - OBJECTS - FOLDERS)):
        module = f"m{number}"
        if seen_at(name) == name:
            yield f"import {name} as {module}"
        else:  # checkers know torch_names/ through the top level alone
            yield "import pullback"
            module = name
        for one in sorted(shown(MODULES[name]) - WANTING):
            if not keyword.iskeyword(one):
                yield f"{module}.{one}  # {name}"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """File name -> line -> what pyright says there."""
    pytest.importorskip(
        "pyright", reason="pyright is not installed; it comes with the extra `test`"
    )
    folder = tmp_path_factory.mktemp("types")
    for name in ("right_lines.py", "wrong_lines.py"):
        shutil.copy(HERE / name, folder)
    (folder / "names.py").write_text("\n".join(every_name()))
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
    said = {"right_lines.py": {}, "wrong_lines.py": {}, "names.py": {}}
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


def test_every_public_name_is_known(found):
    assert len(list(every_name())) > 3000
    assert found["names.py"] == {}
