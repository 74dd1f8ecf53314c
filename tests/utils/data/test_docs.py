"""The programs of docs/data.md print what they show."""

import doctest
import re
from pathlib import Path

TEXT = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")


def test_programs_print_what_is_shown():
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    page = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "page", "page", 0)
    report = []
    results = doctest.DocTestRunner().run(page, out=report.append)
    assert results.failed == 0, "".join(report)
