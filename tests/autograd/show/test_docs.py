"""The pictures of docs/seeing-the-graph.md are there."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "seeing-the-graph.md"


def test_the_pictures_are_there_and_small():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", PAGE.read_text(encoding="utf-8"))
    assert pictures
    assert sum((PAGE.parent / name).stat().st_size for name in pictures) < 300_000
