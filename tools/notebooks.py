"""Makes Jupyter notebooks of pages: text between code cells, without prompts and results.

`make docs` puts one beside each page of the tutorial; `python -m tools.notebooks FOLDER` writes
them into a folder.
"""

from __future__ import annotations

import doctest
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TUTORIAL = Path(__file__).resolve().parents[1] / "docs" / "tutorial"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)


_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)([^)\s]*)\)")


def notebook(page: str) -> dict[str, Any]:
    """The notebook of a page's text, in format 4.5."""
    cells = [
        {"id": f"cell-{number}", **cell}
        for number, cell in enumerate(_cells(page))
        if cell["source"]
    ]
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    about = {"kernelspec": python, "language_info": {"name": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": about, "cells": cells}


def _cells(page: str) -> Iterator[dict[str, Any]]:
    parts = _BLOCK.split(page)  # text, code, text, code, ..., text
    for text, code in zip(parts[::2], [*parts[1::2], ""], strict=True):
        # A notebook goes about alone: links lead to other notebooks, or are text.
        alone = _LINK.sub(_link, text).strip()
        yield {"cell_type": "markdown", "metadata": {}, "source": alone}
        if ">>>" not in code:
            yield _code(code)
            continue
        lines: list[str] = []
        for example in doctest.DocTestParser().get_examples(code):
            if example.exc_msg and lines:  # what fails is a cell of its own
                yield _code("".join(lines))
                lines = []
            lines.append(example.source)
            if example.want:  # a notebook shows the last value of a cell
                yield _code("".join(lines), fails=bool(example.exc_msg))
                lines = []
        yield _code("".join(lines))


def _link(match: re.Match[str]) -> str:
    shown, target = match.groups()
    if "/" in target or not (TUTORIAL / target).is_file():
        return shown
    return f"[{shown}]({target.removesuffix('.md')}.ipynb)"


def _code(source: str, *, fails: bool = False) -> dict[str, Any]:
    about = {"tags": ["raises-exception"]} if fails else {}
    code = source.strip("\n")
    return {
        "cell_type": "code",
        "metadata": about,
        "source": code,
        "outputs": [],
        "execution_count": None,
    }


def write(folder: Path) -> list[Path]:
    """A notebook for each page of the tutorial."""
    made = []
    for page in sorted(TUTORIAL.glob("*.md")):
        path = folder / f"{page.stem}.ipynb"
        text = json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        made.append(path)
    return made


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        print(written)
