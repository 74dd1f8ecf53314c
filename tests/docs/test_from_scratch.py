"""The program of docs/from-scratch.md runs, and stays as short as its title says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "from-scratch.md"


def program():
    return "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S))


def test_the_program_runs():
    exec(compile(program(), str(PAGE), "exec"), {"__name__": "from_scratch"})


def test_the_library_part_is_about_150_lines():
    library = program().partition("x = Tensor(np.array([1.0, 2.0])")[0]
    code = [line for line in library.splitlines() if line.strip()]
    assert len(code) <= 150


def test_the_places_it_names_exist():
    named = re.findall(r"`((?:core|operators|engine)/[\w/.]+)`", PAGE.read_text(encoding="utf-8"))
    package = PAGE.parents[1] / "pullback"
    assert named
    assert [place for place in named if not (package / place).exists()] == []
