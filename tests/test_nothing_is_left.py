"""Functions and classes of ours that nothing names any more are taken out, not kept."""

import re
from collections import Counter
from pathlib import Path

import pullback

PACKAGE = Path(pullback.__file__).parent
# Folders whose names are our own; elsewhere many stand there because torch has them.
OURS = ("core", "engine", "transforms", "operators", "compiled", "serialization", "checking")
KEPT = {
    "engine/threads.py: running_levels",  # for tests
}
# A function or class of a module, without a decorator, and all that is inside it.
DEFINITION = re.compile(r"(?<=\n\n)(?:def|class) (\w+)\b.*(?:\n(?:[ )].*)?)*")
LIST = re.compile(r"^__all__ = [\[(].*?[\])]$", re.DOTALL | re.MULTILINE)
WORD = re.compile(r"[^\W\d]\w*")


def unnamed(texts):
    """Module by module, the definitions that no text names but their own and the module's list."""
    unlisted = {place: LIST.sub("", text) for place, text in texts.items()}
    named = Counter()
    for text in unlisted.values():
        named.update(WORD.findall(text))
    for place, text in unlisted.items():
        for found in DEFINITION.finditer(text):
            name = found[1]
            if named[name] == WORD.findall(found[0]).count(name):
                yield f"{place}: {name}"


def test_what_nothing_names_is_taken_out():
    files = sorted(PACKAGE.rglob("*.py"))
    texts = {one.relative_to(PACKAGE).as_posix(): one.read_text(encoding="utf-8") for one in files}
    found = {one for one in unnamed(texts) if one.partition("/")[0] in OURS}
    assert found <= KEPT


def test_what_is_left_is_found():
    left = '__all__ = ["left"]\n\n\ndef called():\n    pass\n\n\ndef left(n):\n    left(n - 1)\n'
    assert list(unnamed({"a.py": left, "b.py": "from a import called"})) == ["a.py: left"]
