"""The programs of docs/debugging.md print what they show."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "debugging.md"


def test_programs_of_the_page_print_what_is_shown():
    text = PAGE.read_text(encoding="utf-8")
    programs = "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    example = doctest.DocTestParser().get_doctest(programs, {}, PAGE.name, str(PAGE), 0)
    assert len(example.examples) > 30
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example, out=said.append).failed == 0, "".join(said)
