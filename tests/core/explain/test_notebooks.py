"""Errors of notebooks' cells end at the user's line too."""

import re
import sys
import types

import pytest

import pullback as torch
from pullback.core.explain import printed


class Shell:
    """What is used of a notebook's shell."""

    def __init__(self, others=()):
        self.custom_exceptions = others
        self.handler = None
        self.shown = []

    def set_custom_exc(self, kinds, handler):
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, told, tb_offset=None):
        kind, error, trace = told
        files = []
        while trace is not None:
            files.append(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        self.shown.append((kind, error.__suppress_context__, files))


@pytest.fixture
def shell(monkeypatch):
    made = Shell()
    fake = types.SimpleNamespace(get_ipython=lambda: made)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setattr(sys, "last_traceback", None, raising=False)
    printed.install()
    return made


def failed(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError


def test_frames_of_the_package_are_left_out(shell, capsys):
    error = failed(lambda: torch.nn.Linear(3, 2)(torch.ones(1, 4)))
    shell.handler(shell, type(error), error, error.__traceback__)
    ((kind, _, files),) = shell.shown
    assert kind is RuntimeError
    assert set(files) == {__file__}
    assert "frames of pullback hidden" in capsys.readouterr().err
    assert sys.last_traceback is error.__traceback__  # debuggers see everything


def test_everything_is_shown_on_request(shell, capsys, monkeypatch):
    monkeypatch.setenv("PULLBACK_TRACEBACK", "full")
    error = failed(lambda: torch.nn.Linear(3, 2)(torch.ones(1, 4)))
    shell.handler(shell, type(error), error, error.__traceback__)
    assert any("pullback" in file for file in shell.shown[0][2] if file != __file__)
    assert capsys.readouterr().err == ""


def test_what_the_package_caught_itself_is_left_out_for_the_print_alone(shell):
    def caught_inside():
        source = "try:\n    1 / 0\nexcept ZeroDivisionError:\n    int('x')"
        exec(compile(source, "<pullback made up>", "exec"), {})

    error = failed(caught_inside)
    shell.handler(shell, type(error), error, error.__traceback__)
    assert shell.shown[0][1]
    assert not error.__suppress_context__


def test_unknown_argument_is_told_with_the_signature(shell, capsys):
    error = failed(lambda: torch.sum(torch.ones(2), dims=0))
    shell.handler(shell, type(error), error, error.__traceback__)
    assert "did you mean 'dim'?" in capsys.readouterr().err


def test_handler_of_the_user_stays(monkeypatch):
    made = Shell(others=(ValueError,))
    fake = types.SimpleNamespace(get_ipython=lambda: made)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    printed.install()
    assert made.handler is None


def test_outside_of_a_notebook_nothing_is_asked(monkeypatch):
    fake = types.SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    printed.install()


def test_ipython_itself_shows_it_so():
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell.instance()
    said = []
    shell._showtraceback = lambda kind, error, lines: said.extend(lines)
    try:
        printed.install()
        shell.run_cell("import pullback as torch\ntorch.ones(2) @ torch.ones(3)")
    finally:
        interactive.InteractiveShell.clear_instance()
    text = re.sub("\x1b\\[[0-9;]*m", "", "\n".join(said))  # without its colours
    assert "torch.ones(2) @ torch.ones(3)" in text
    assert "products.py" not in text
