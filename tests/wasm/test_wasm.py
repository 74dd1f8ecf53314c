"""pullback where browsers run Python: `make test-wasm PYODIDE=DIR`.

The claims of smoke.py hold here too; what needs Pyodide is skipped without one.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import browser, site

SMOKE = Path(__file__).with_name("smoke.py")
PYODIDE = os.environ.get("PULLBACK_PYODIDE")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A minute or two each on an idle machine.
LONG = ("neural_ode.py", "pinn.py", "tiny_gpt.py", "vae.py", "membrane.py")
# What programs of the gallery use beside NumPy; a Pyodide need not have it.
PACKAGES = ("matplotlib", "mpmath", "sympy", "tqdm")

needs_pyodide = pytest.mark.skipif(
    not PYODIDE or shutil.which("node") is None,
    reason="make test-wasm PYODIDE=DIR, with node",
)


def claims():
    spec = importlib.util.spec_from_file_location("wasm_smoke", SMOKE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CLAIMS


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.__name__)
def test_what_works_in_a_browser_works_here(claim):
    claim()


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "pullback.zip"
    path.write_bytes(browser.archive())
    return path


def in_pyodide(archive, program):
    script = browser.CELLS.with_name("run.mjs")
    done = subprocess.run(
        ["node", script, PYODIDE, archive, program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-500:]
    return done.stdout.splitlines()


@needs_pyodide
def test_every_claim_holds_in_pyodide(archive):
    said = in_pyodide(archive, SMOKE)
    assert [line.split()[1] for line in said] == [claim.__name__ for claim in claims()]


CELLS = """
import json
import pullback_cells

cells = json.loads({cells!r})
names, shown = {{"__name__": "__main__"}}, []
for code, program in cells:
    ended = pullback_cells.run(code, names, lambda kind, data: shown.append((kind, data)), program)
    if not ended:
        raise SystemExit("".join(data for kind, data in shown if kind == "text")[-2000:])
print(sorted({{kind for kind, _ in shown}}))
"""


def all_ran(archive, cells, folder):
    program = folder / "cells.py"
    imports = [
        line
        for code, _ in cells
        for line in code.splitlines()
        if re.match(r" *(from|import) ", line)
    ]
    program.write_text(
        CELLS.format(cells=json.dumps(cells))
        + "if False:\n    pass\n"
        + "".join(
            f"    {line.strip()}\n"
            for line in imports
            if "pullback" not in line and line.count("(") == 0
        ),
        encoding="utf-8",
    )
    return in_pyodide(archive, program)


@needs_pyodide
@pytest.mark.parametrize(
    "page", sorted((site.DOCS / "tutorial").glob("*.md")), ids=lambda page: page.stem
)
def test_the_code_of_the_tutorial_runs_in_pyodide(archive, page, tmp_path):
    all_ran(archive, [(code, "") for code in BLOCK.findall(page.read_text())], tmp_path)


@needs_pyodide
@pytest.mark.parametrize(
    "example", sorted(set(site.EXAMPLES.glob("*.py"))), ids=lambda path: path.name
)
def test_the_programs_of_the_gallery_run_in_pyodide(archive, example, tmp_path):
    code = example.read_text(encoding="utf-8")
    used = {name for name in PACKAGES if re.search(rf"^ *(?:from|import) {name}\b", code, re.M)}
    if lacking := sorted(name for name in used if not list(Path(PYODIDE).glob(f"{name}-*.whl"))):
        pytest.skip(f"this Pyodide has no {', '.join(lacking)}")
    if example.name in LONG and not os.environ.get("PULLBACK_WASM_LONG"):
        pytest.skip("a minute or more; PULLBACK_WASM_LONG=1 runs it")
    all_ran(archive, [(code, example.name)], tmp_path)
