"""The programs of docs/custom-operators.md print what they show."""

import doctest
import importlib.util
import re
import shutil
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "custom-operators.md"
FLAGS = doctest.NORMALIZE_WHITESPACE
SECTIONS = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
NEEDS = {"SciPy": "scipy", "Numba": "numba", "C, through cffi": "cffi"}


def programs(section):
    return "\n".join(re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def title(section):
    return section.partition("\n")[0]


RUN = [title(section) for section in SECTIONS[1:] if programs(section)]


def test_page_has_an_example_of_every_kind_of_kernel():
    assert {"NumPy", "SciPy", "Numba", "C, through ctypes", "C, through cffi"} <= set(RUN)


@pytest.mark.parametrize("name", RUN)
def test_programs_of_the_page_print_what_is_shown(name):
    needed = NEEDS.get(name)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed; the extra `test` brings it")
    if name == "C, through ctypes" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler `cc`")
    # The operators of the first part are used again later on.
    parts = [SECTIONS[0], *(s for s in SECTIONS[1:] if title(s) in ("NumPy", name))]
    text = "\n".join(map(programs, parts))
    example = doctest.DocTestParser().get_doctest(text, {}, name, str(PAGE), 0)
    assert len(example.examples) > 10
    said = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append).failed
    assert failed == 0, "".join(said)
