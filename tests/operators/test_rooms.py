"""Rooms of operators keep to themselves what begins with an underscore."""

import ast
import pathlib

import pytest

import pullback

HERE = pathlib.Path(pullback.__file__).parent / "operators"


def room(parts):
    """The folder that a module lives in; those of nn are rooms of their own."""
    return parts[:2] if parts[0] == "nn" else parts[:1]


ROOMS = sorted(
    {room(path.relative_to(HERE).parts[:-1] or (path.stem,)) for path in HERE.rglob("*.py")}
)


def private_imports(path):
    own = room(path.relative_to(HERE).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "pullback.operators."
        ):
            other = tuple(node.module.split(".")[2:])
            names = [one.name for one in node.names if one.name.startswith("_")]
            if room(other) != own and names:
                yield node.module, names


@pytest.mark.parametrize("name", ROOMS, ids=".".join)
def test_a_room_takes_no_private_part_of_another(name):
    files = [HERE.joinpath(*name).with_suffix(".py"), *HERE.joinpath(*name).rglob("*.py")]
    found = {str(path): list(private_imports(path)) for path in files if path.exists()}
    assert {path: taken for path, taken in found.items() if taken} == {}
