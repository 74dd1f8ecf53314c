"""Tables that name operators, formulas or functions by their names name none that is not there."""

import ast
import pathlib

import pullback
from pullback.compiled import show
from pullback.compiled.eager.formulas import FORMULAS
from pullback.compiled.lower import program
from pullback.compiled.lower.rules import RULES, STORED
from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS
from pullback.operators.nested import calls as nested
from pullback.operators.sparse import calls as sparse

load_all()
PACKAGE = pathlib.Path(pullback.__file__).parent


def test_every_lowering_is_that_of_an_operator():
    assert program  # which registers them
    assert sorted({*RULES, *STORED} - {*OPERATORS}) == []


ASKING = ("by_machine_code", "_by_machine_code", "kernel_of")


def formulas_asked_for():
    """The names that machine code is asked for by, wherever a call says one."""
    for room in ("operators", "nn", "optim"):
        for path in (PACKAGE / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                given = [one.value for one in node.keywords if one.arg == "formula"]
                if called in ASKING or (path.name == "native.py" and called in ("_made", "_run")):
                    given += node.args[:1]
                for one in given:
                    if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value:
                        yield one.value


def test_machine_code_is_asked_for_by_names_of_formulas():
    asked = {*formulas_asked_for()}
    assert len(asked) > 20
    assert sorted(asked - {*FORMULAS}) == []


def test_layouts_stand_for_operators_and_public_functions():
    assert sorted({*sparse.table()} - {*OPERATORS} - {op.name for op in OPERATORS.values()}) == []
    for strided in (True, False):
        unknown = [one for one in nested.table(strided) if not is_known(one)]
        assert unknown == []


def is_known(name):
    if name in OPERATORS or show.found(name) is not None:
        return True
    return hasattr(pullback.Tensor, name) or hasattr(pullback.nested, name)
