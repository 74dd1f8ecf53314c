"""The programs of docs/seeing-the-graph.md print what they show, and its pictures are there."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "seeing-the-graph.md"


def test_programs_of_the_page_print_what_is_shown():
    text = PAGE.read_text(encoding="utf-8")
    programs = "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(programs, {}, PAGE.name, str(PAGE), 0)
    assert len(example.examples) > 10
    said = []
    assert doctest.DocTestRunner().run(example, out=said.append).failed == 0, "".join(said)


def test_the_pictures_are_there_and_small():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", PAGE.read_text(encoding="utf-8"))
    assert pictures
    assert sum((PAGE.parent / name).stat().st_size for name in pictures) < 300_000
