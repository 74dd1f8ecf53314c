"""The order in which Python evaluates the names of a question, and which of them it may skip."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

__all__ = ["Sure", "names_asked"]

# Whether a name is evaluated each time, at least where the answer is yes, or neither is certain.
Sure = Literal["always", "if so", "perhaps"]
_COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SKIPPING = ast.IfExp | ast.Lambda | _COMPREHENSION  # some of their parts


def names_asked(question: str) -> Iterator[tuple[str, int, Sure]]:
    """Each name in a question in the order of evaluation, its place in the text, how sure it is.

    Of `a == 2 == b and c`, `a` is evaluated always, `b` and `c` if the answer is yes; of
    `a or b`, `b` perhaps.

    >>> [(name, sure) for name, _, sure in names_asked("a == 2 == b and c")]
    [('a', 'always'), ('b', 'if so'), ('c', 'if so')]
    """
    return _names(ast.parse(question, mode="eval").body, "always", decides=True)


def _names(node: ast.AST, sure: Sure, *, decides: bool) -> Iterator[tuple[str, int, Sure]]:
    """`decides`: whether the question can only be answered with yes where this is true."""
    after: Sure = "if so" if decides and sure != "perhaps" else "perhaps"
    if isinstance(node, ast.Name):
        yield node.id, node.col_offset, sure
    elif isinstance(node, ast.Compare):
        first, *others = node.comparators
        yield from _names(node.left, sure, decides=False)
        yield from _names(first, sure, decides=False)
        for one in others:
            yield from _names(one, after, decides=False)
    elif isinstance(node, ast.BoolOp):
        decides = decides and isinstance(node.op, ast.And)
        left, *rest = node.values
        yield from _names(left, sure, decides=decides)
        for one in rest:
            yield from _names(one, after if decides else "perhaps", decides=decides)
    else:
        inside: Sure = "perhaps" if isinstance(node, _SKIPPING) else sure
        for part in ast.iter_child_nodes(node):
            yield from _names(part, inside, decides=False)
