"""Calls upwards go through ports; each is filled once, by one line of the package."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import pullback
from pullback.core.ports import Ports, ports


def fillings():
    for path in Path(pullback.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "ports.fill":
                yield from (keyword.arg for keyword in call.keywords)


def test_each_port_is_filled_by_one_line():
    assert Counter(fillings()) == Counter(Ports.__annotations__.keys())


def test_a_port_is_filled_once():
    mine = Ports()
    mine.fill(build=len)
    with pytest.raises(TypeError, match="filled already"):
        mine.fill(build=max)


def test_an_import_that_was_interrupted_may_fill_its_ports_again():
    def first():
        def build():
            pass

        return build

    mine = Ports()
    mine.fill(build=first())
    again = first()
    mine.fill(build=again)
    assert mine.build is again


def test_an_unknown_port_and_one_not_filled_say_so():
    with pytest.raises(TypeError, match="no port 'biuld'"):
        Ports().fill(biuld=len)
    with pytest.raises(AttributeError, match="'build' is not filled"):
        Ports().build


def test_the_package_fills_what_every_program_needs():
    assert {"build", "regenerate", "restride", "view_of"} <= vars(ports).keys()
