"""The tutorial's notebooks run from the first cell to the last; what is meant to fail says so."""

import contextlib
import io
import json
import os

import pytest

from tools import notebooks


@pytest.mark.parametrize("page", sorted(notebooks.TUTORIAL.glob("*.md")), ids=lambda p: p.stem)
def test_a_notebook_of_the_tutorial_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some pages write files
    made = notebooks.notebook(page.read_text(encoding="utf-8"))
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    names = {"__name__": "__main__"}
    ran = 0
    for cell in made["cells"]:
        if cell["cell_type"] == "markdown":
            assert "```python" not in cell["source"]
            continue
        fails = "raises-exception" in cell["metadata"].get("tags", ())
        expected = pytest.raises(Exception) if fails else contextlib.nullcontext()  # noqa: PT011
        with expected, contextlib.redirect_stdout(io.StringIO()):
            exec(compile(cell["source"], f"{page.name}, {cell['id']}", "exec"), names)
        ran += 1
    assert ran >= 3


def test_prompts_and_results_are_left_out_and_values_end_their_cells():
    page = (
        "# Title\n\nSee [two](2-tensors.md), [modules](../modules.md).\n\n"
        "```python\n>>> x = 1\n>>> x + 1\n2\n>>> 1 / 0\n"
        "Traceback (most recent call last):\nZeroDivisionError: division by zero\n```\nEnd."
    )
    cells = notebooks.notebook(page)["cells"]
    sources = [cell["source"] for cell in cells]
    assert sources[0] == "# Title\n\nSee [two](2-tensors.ipynb), modules."
    assert sources[1:] == ["x = 1\nx + 1", "1 / 0", "End."]
    assert cells[2]["metadata"] == {"tags": ["raises-exception"]}


def test_files_are_json_of_notebooks(tmp_path):
    written = notebooks.write(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [path.name for path in written]
    for path in written:
        assert json.loads(path.read_text(encoding="utf-8"))["nbformat"] == 4
