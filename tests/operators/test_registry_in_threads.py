"""The registry of operators grows while other threads read it: they go over a copy.

Families load when they are first needed. A loop over the dict itself then fails in whichever thread
happens to be in one ("dictionary changed size during iteration").
"""

import ast
from pathlib import Path

import pullback

GROWING = ("OPERATORS",)


def reads_directly(tree):
    for node in ast.walk(tree):
        if not isinstance(node, (ast.For, ast.comprehension)):
            continue
        over = node.iter
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute):
            over = over.func.value if over.func.attr in ("values", "items", "keys") else over
        if isinstance(over, ast.Name) and over.id in GROWING:
            yield over.lineno


def test_the_check_sees_what_it_is_for():
    direct = "a = [x for x in OPERATORS.values()]", "for z in OPERATORS: pass"
    assert all(list(reads_directly(ast.parse(line))) == [1] for line in direct)
    assert not list(reads_directly(ast.parse("for y in list(OPERATORS.items()): pass")))


def test_no_loop_is_over_the_registry_itself():
    root = Path(pullback.__file__).parent
    found = [
        f"{path.relative_to(root)}:{line}"
        for path in root.rglob("*.py")
        if any(name in (text := path.read_text()) for name in GROWING)
        for line in reads_directly(ast.parse(text))
    ]
    assert found == []
