"""What can be changed in a source: one operator, comparison, constant or call at a time."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
COMPARISONS = {
    "==": "!=",
    "!=": "==",
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
}
# In a text that is code: what each token is changed to.
TOKENS = {
    **{old: new for old, new in COMPARISONS.items() if " " not in old and old != "in"},
    "+": "-",
    "-": "+",
    "and": "or",
    "or": "and",
    "not": "",
    "True": "False",
    "False": "True",
}
CODE = re.compile(r"\n +(return|if|for|while)\b")


@dataclass(frozen=True)
class Change:
    """`old` at a place in a file, written as `new`."""

    path: str
    line: int  # from 1
    start: int  # in the text of the file
    old: str
    new: str
    source: str  # the line as it stands, without its margin
    statement: tuple[int, int] | None = None  # its lines; None: run when the module is imported

    def apply(self, text: str) -> str:
        """The text of the file with the change made."""
        assert text.startswith(self.old, self.start)
        return text[: self.start] + self.new + text[self.start + len(self.old) :]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What the list of kept ones goes by: lines move."""
        return self.path, self.source, _short(self.old), _short(self.new)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {_short(self.old)!r} -> {_short(self.new)!r}"


def _short(text: str) -> str:
    return " ".join(text.split())


def changes_of(path: Path, root: Path) -> list[Change]:
    """Every change of a file, in the order of their places."""
    found = set(_Finder(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()))
    return sorted(found, key=lambda change: (change.start, change.old, change.new))


class _Finder:
    """Goes over a file's tree; what only types, messages and names is left alone."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path
        self.statement: tuple[int, int] | None = None
        self.left_out: ast.Call | None = None
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def __iter__(self) -> Iterator[Change]:
        yield from self._walk(ast.parse(self.text))

    def _offset(self, line: int, column: int) -> int:
        """The place in the text of what `ast` gives by line and byte."""
        before = self.lines[line - 1].encode()[:column].decode()
        return self.starts[line - 1] + len(before)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        place: ast.expr = node  # type: ignore[assignment]  # all that come here have a place
        assert place.end_lineno is not None
        assert place.end_col_offset is not None
        return (
            self._offset(place.lineno, place.col_offset),
            self._offset(place.end_lineno, place.end_col_offset),
        )

    def _of(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.text[start:end]

    def _change(self, start: int, old: str, new: str) -> Change:
        line = self.text.count("\n", 0, start) + 1
        source = self.lines[line - 1].strip()
        return Change(self.path, line, start, old, new, source, self.statement)

    def _whole(self, node: ast.AST, new: str) -> Change:
        start, end = self._span(node)
        return self._change(start, self.text[start:end], new)

    def _walk(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
            return
        if isinstance(node, ast.If) and self._of(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Assign | ast.AnnAssign) and _names_only(node):
            return
        if isinstance(node, ast.keyword) and node.arg in ("strict", "stacklevel"):
            return  # what only our own fault could break, and where a warning points
        yield from self._of_node(node)
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            outside = self.statement
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.AST) and not _is_docstring(node, one):
                    self._enter(node, one)
                    yield from self._walk(one)
                    self.statement = outside

    def _enter(self, parent: ast.AST, node: ast.AST) -> None:
        """Note the statement of a function that is gone into."""
        inside = isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(parent, ast.ClassDef) and isinstance(node, ast.stmt):
            self.statement = None
        elif (inside and isinstance(node, ast.expr)) or (
            (inside or self.statement) and isinstance(node, ast.stmt)
        ):
            self.statement = node.lineno, node.end_lineno or node.lineno

    def _of_node(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.Compare):
            yield from self._comparisons(node)
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            if not isinstance(node.left, ast.Constant) or not isinstance(node.left.value, str):
                yield self._between(node.left, node.right, old, new)
        elif isinstance(node, ast.BoolOp):
            yield from self._junctions(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield self._whole(node, f"({self._of(node.operand)})")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield self._whole(node, "None")
            self.left_out = node.value  # the argument alone would do as little
        elif isinstance(node, ast.Call) and node is not self.left_out and _has_one_argument(node):
            yield self._whole(node, f"({self._of(node.args[0])})")
        elif isinstance(node, ast.Constant):
            yield from self._constants(node)

    def _between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> Change:
        """An operator that stands between two operands, past brackets and breaks of the line."""
        start = self._span(left)[1]
        end = self._span(right)[0]
        words = old.split()
        at = self.text.index(words[0], start, end)
        last = self.text.index(words[-1], at, end) + len(words[-1])
        return self._change(at, self.text[at:last], new)

    def _comparisons(self, node: ast.Compare) -> Iterator[Change]:
        left: ast.expr = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            old = _SPELLED[type(op)]
            yield self._between(left, right, old, COMPARISONS[old])
            left = right

    def _junctions(self, node: ast.BoolOp) -> Iterator[Change]:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield self._between(left, right, old, new)
        for i in range(len(node.values)):  # without one of them
            rest = [self._of(one) for j, one in enumerate(node.values) if j != i]
            yield self._whole(node, f" {old} ".join(rest) if len(rest) > 1 else f"({rest[0]})")

    def _constants(self, node: ast.Constant) -> Iterator[Change]:
        value = node.value
        if isinstance(value, bool):
            yield self._whole(node, str(not value))
        elif isinstance(value, int):
            yield self._whole(node, str(value + 1))
        elif isinstance(value, str) and CODE.search(value):
            yield from self._in_text(node)

    def _in_text(self, node: ast.Constant) -> Iterator[Change]:
        """Tokens of code that is written as text, as the loop of the engine is."""
        start, end = self._span(node)
        inside = self.text[start:end]
        at = inside.find('"""') + 3
        if at < 3:
            return
        code = inside[at:-3]
        begins = [0]
        for line in code.splitlines(keepends=True):
            begins.append(begins[-1] + len(line))
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
        except (tokenize.TokenError, IndentationError):
            return
        for token in tokens:
            new = TOKENS.get(token.string)
            if token.type == tokenize.NUMBER and token.string.isdigit():
                new = str(int(token.string) + 1)
            if new is None or token.type == tokenize.STRING:
                continue
            place = start + at + begins[token.start[0] - 1] + token.start[1]
            yield self._change(place, token.string, new)


_SPELLED = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _has_one_argument(node: ast.Call) -> bool:
    if len(node.args) != 1 or node.keywords:
        return False
    if isinstance(node.func, ast.Name) and node.func.id in ("tuple", "list", "set", "frozenset"):
        return False  # whoever reads the items reads them from the other as well
    return not isinstance(node.args[0], ast.Starred | ast.GeneratorExp | ast.Constant)


def _names_only(node: ast.Assign | ast.AnnAssign) -> bool:
    """Whether a statement tells of names alone: `__all__`, `__slots__`, types."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    named = {target.id for target in targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.dump(node.annotation):
        return True
    return bool(named & {"__all__", "__slots__", "__match_args__", "_fields"})


def _is_docstring(parent: ast.AST, node: ast.AST) -> bool:
    holds = isinstance(parent, ast.Module | ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    plain = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return holds and plain
