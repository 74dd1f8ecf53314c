"""Badges in README say what pyproject.toml says."""

import re

from generate import badges
from pullback import installed

README = (badges.ROOT / "README.md").read_text(encoding="utf-8")


def test_badges_are_current_and_readme_shows_each():
    for path, text in badges.files().items():
        assert path.read_text(encoding="utf-8") == text, "run: make generate"
        assert f"]({path.relative_to(badges.ROOT).as_posix()})" in README
    assert len(badges.files()) == len(list(badges.FOLDER.iterdir()))


def test_badges_say_what_holds():
    said = badges.said()
    assert said["version"] == ("version", installed.version())
    assert said["python"][1] == "3.11 or newer"
    assert said["needs"][1] == "numpy, ml_dtypes"


def test_badges_ask_the_network_for_nothing():
    for text in badges.files().values():
        assert re.findall(r'(?:href|src)="', text) == []
    assert not re.search(r"!\[[^\]]*\]\(https?:", README)
