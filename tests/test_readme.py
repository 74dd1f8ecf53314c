"""The README's programs run as printed, and the commands it names exist."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def test_readme_has_a_first_program():
    assert BLOCKS


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_readme_program_prints_what_is_shown(number):
    example = doctest.DocTestParser().get_doctest(BLOCKS[number], {}, "README", "README.md", 0)
    assert example.examples, "show results with >>> so that they are checked"
    report = []
    results = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append)
    assert results.failed == 0, "".join(report)


def test_commands_of_the_documents_are_targets_of_the_makefile():
    documents = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(re.findall(r"`[^`]+`", documents))))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
