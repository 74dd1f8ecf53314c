"""The programs of docs/subclasses.md print what they show."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "subclasses.md"


def test_programs_of_the_page_print_what_they_show():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(example.examples) > 10
    failures = []
    doctest.DocTestRunner().run(example, out=failures.append)
    assert not failures, "".join(failures)
