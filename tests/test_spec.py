"""Row ids in tests lead to rows of docs/spec."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"\b([A-Z]-\d+)\b")


def rows():
    return {
        row
        for page in (ROOT / "docs" / "spec").glob("*.md")
        for row in re.findall(r"^- \**([A-Z]-\d+)\b", page.read_text(encoding="utf-8"), re.M)
    }


def test_every_row_that_a_test_names_is_in_the_specification():
    known = rows()
    unknown = {}
    for path in (ROOT / "tests").rglob("*.py"):
        named = set(ROW.findall(path.read_text(encoding="utf-8"))) - known
        if named:
            unknown[str(path.relative_to(ROOT))] = sorted(named)
    assert unknown == {}


def test_the_specification_has_its_rows():
    assert len(rows()) > 800
