"""Counting the part of the package that existed at a commit."""

from __future__ import annotations

from tools.lineage import _definitions

SOURCE = '''
import os
TABLE = {
    1: 2,
}


@decorated
def function():
    return 1


class Thing:
    """What it is."""

    def method(self):
        return 2
'''


def test_lines_are_counted_for_each_definition_and_methods_apart_from_their_class():
    sizes = _definitions(SOURCE)
    assert sizes == {"TABLE": 3, "function": 3, "Thing": 3, "Thing.method": 2}
