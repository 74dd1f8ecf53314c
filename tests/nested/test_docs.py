"""The programs of docs/nested.md, and those in docstrings, print what they show."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from pullback import nested
from pullback.operators import nested as family

PAGE = Path(__file__).parents[2] / "docs" / "nested.md"
MODULES = ["pullback.nested"] + [
    module.name
    for package in (nested, family)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]


def test_the_page_prints_what_it_shows():
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    said = []
    assert doctest.DocTestRunner().run(example, out=said.append).failed == 0, "".join(said)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_print_what_they_show(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
