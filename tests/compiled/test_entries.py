"""Tables that name operators, formulas or functions by their names name none that is not there."""

import ast
import pathlib

import pullback
from pullback.compiled import show
from pullback.compiled.eager.formulas import FORMULAS
from pullback.compiled.lower import program
from pullback.compiled.lower.rules import RULES, STORED
from pullback.operators.arrays import programs
from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS
from pullback.operators.nested import calls as nested
from pullback.operators.sparse import calls as sparse

load_all()
PACKAGE = pathlib.Path(pullback.__file__).parent


def test_every_lowering_is_that_of_an_operator():
    assert program  # which registers them
    assert sorted({*RULES, *STORED} - {*OPERATORS}) == []


ASKING = ("by_machine_code", "_by_machine_code", "kernel_of", "_made", "_run")
PROGRAMS = {name for name, one in vars(programs).items() if type(one) is programs.Program}


def programs_asked_for():
    """What calls of the package name as `programs.X`; a text in its place fails."""
    for room in ("operators", "nn", "optim"):
        for path in (PACKAGE / room).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "programs":
                    yield node.attr
                if isinstance(node, ast.Call) and "native" in path.name:
                    called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                    texts = [one for one in node.args[:1] if isinstance(one, ast.Constant)]
                    assert called not in ASKING or not texts, f"{path.name}: {called} by a text"


def test_machine_code_that_is_asked_for_is_written_and_none_else():
    assert {*programs_asked_for()} >= PROGRAMS
    assert {getattr(programs, name) for name in PROGRAMS} == {*FORMULAS}


def test_layouts_stand_for_operators_and_public_functions():
    assert sorted({*sparse.table()} - {*OPERATORS} - {op.name for op in OPERATORS.values()}) == []
    for strided in (True, False):
        unknown = [one for one in nested.table(strided) if not is_known(one)]
        assert unknown == []


def is_known(name):
    if name in OPERATORS or show.found(name) is not None:
        return True
    return hasattr(pullback.Tensor, name) or hasattr(pullback.nested, name)
