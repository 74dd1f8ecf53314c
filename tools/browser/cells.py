"""Runs the code of a page, cell by cell, where no notebook is: in the visitor's browser.

The page of the site sends a cell's text, and shows what comes back: text as it is written, pictures
and pages when they are there. It needs nothing but Python, so that tests run it as it is.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import doctest
import io
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["run"]

Show = Callable[[str, str], Any]  # the kind ("text", "image", "page") and what there is to show

_PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}
_numbers = iter(range(1, sys.maxsize))


def run(source: str, names: dict[str, Any], show: Show, program: str = "") -> bool:
    """Run a cell in a namespace; whether it ended well.

    With prompts (`>>>`) it is a session: each value is shown, and an error that the page expects
    does not end it. A program, with the name of its file, is run as if started anew.
    """
    before = _files()
    with contextlib.redirect_stdout(_Shown(show)), contextlib.redirect_stderr(_Shown(show)):
        try:
            if program:
                _start(source, program)
            elif ">>>" in source:
                _session(source, names, show)
            else:
                _cell(source, names, show)
        except SystemExit as error:
            ended = error.code in (None, 0)
            if not ended:
                show("text", f"The program ended with {error.code}.\n")
        except BaseException as error:  # what is wrong with a cell is shown below it
            show("text", _told(error))
            ended = False
        else:
            ended = True
        for kind, data in _made(before):
            show(kind, data)
    return ended


class _Shown(io.TextIOBase):
    """A stream whose text is shown as it comes."""

    def __init__(self, show: Show) -> None:
        self._show = show

    def write(self, text: str) -> int:
        """Show it."""
        self._show("text", text)
        return len(text)


def _start(source: str, program: str) -> None:
    """A program with a namespace and arguments of its own: its picture is asked for."""
    given = sys.argv
    sys.argv = [program, *(("--picture", "picture.png") if '"--picture"' in source else ())]
    try:
        code = compile(source, _remembered(source, program), "exec")
        exec(code, {"__name__": "__main__", "__file__": program})
    finally:
        sys.argv = given


def _session(source: str, names: dict[str, Any], show: Show) -> None:
    for example in doctest.DocTestParser().get_examples(source):
        try:
            _cell(example.source, names, show)
        except Exception as error:
            show("text", _told(error))
            if not example.exc_msg:  # one that the page expects is what it wants to show
                raise _ToldError from None


class _ToldError(Exception):
    """An error that has been shown."""


def _cell(source: str, names: dict[str, Any], show: Show) -> None:
    """Run it; the value of each statement that is an expression and ends the cell is shown."""
    name = _remembered(source, f"<cell {next(_numbers)}>")
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    value = None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, name, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    if value is not None:
        show("text", f"{value!r}\n")
        drawn = getattr(value, "_repr_html_", None)
        if drawn is not None:
            show("page", drawn())


def _remembered(source: str, name: str) -> str:
    """Keep a cell's lines, so that errors can show them."""
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    return name


def _told(error: BaseException) -> str:
    """An error with its traceback from the cell on."""
    if isinstance(error, _ToldError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [place for place, frame in enumerate(frames) if frame.filename == __file__]
    shown = frames[ours[-1] + 1 :] if ours else frames
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)]
    return "".join([*(lines if shown else ()), *traceback.format_exception_only(error)])


def _files() -> dict[Path, float]:
    """The pictures and pages that lie here, with the time of their last change."""
    kinds = {*_PICTURES, ".html"}
    found = [
        path for path in Path.cwd().rglob("*") if path.suffix in kinds and "lib" not in path.parts
    ]
    return {path: os.stat(path).st_mtime_ns for path in found}


def _made(before: dict[Path, float]) -> Iterator[tuple[str, str]]:
    """Figures that are open, and files that a cell wrote."""
    plots = sys.modules.get("matplotlib.pyplot")
    for number in plots.get_fignums() if plots is not None else ():
        picture = io.BytesIO()
        plots.figure(number).savefig(picture, format="png", bbox_inches="tight")
        yield "image", _address("image/png", picture.getvalue())
    if plots is not None:
        plots.close("all")
    for path, changed in sorted(_files().items()):
        if before.get(path) == changed:
            continue
        if path.suffix == ".html":
            yield "page", path.read_text(encoding="utf-8")
        else:
            yield "image", _address(_PICTURES[path.suffix], path.read_bytes())


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
