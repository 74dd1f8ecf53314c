"""Object code for all sizes: programs of one family differ in numbers, which become inputs.

The text of a program at one size and at another differ in loop bounds, strides and the like. Those
numbers are then read from the program's table instead, and the code is compiled once. A later size
writes its own text, which must agree in everything else; the numbers are taken from there.
"""

from __future__ import annotations

import re
import threading
from typing import Any

from pullback.compiled.ir.symbols import NotSymbolic
from pullback.compiled.llvm.machine import Code

__all__ = ["Sharing", "Templates", "with_words"]

# Numbers that stand by themselves: not part of a name, a label or a comment.
_NUMBER = re.compile(r"(?<=[ ,(\[<])(?:0x[0-9A-F]{16}|-?\d+)(?=[,)\] \n]|$)")
_TYPED = re.compile(r"(i64|i32|float|double) $")
_WHOLE = re.compile(r"= (?:add|sub|mul|udiv|urem|icmp \w+) (i64|i32) .*$")
_REAL = re.compile(
    r"= (?:fadd|fsub|fmul|fdiv)(?: contract)? (<(\d+) x (float|double)>|float|double) .*$"
)
_SPLAT = re.compile(r"splat \((float|double) $")
_MOST_KNOWN = 8  # of one structure, where numbers cannot be inputs


class Sharing:
    """What a back end is told of a program that is one of a family."""

    def __init__(
        self, templates: Templates, moving: frozenset[int], family: Any = None, sizes: Any = ()
    ) -> None:
        """`moving`: sizes of arrays that are others in other programs of the family.

        `family`: what casts its programs for `sizes` (sizes/moulds.py).
        """
        self.templates, self.moving = templates, moving
        self.family, self.sizes = family, sizes

    def program(self, name: str, entry: Any) -> Any:
        """What an entry makes under a name, where a mould of the family has it."""
        return None if self.family is None else self.family.moulds.program(name, entry, self.sizes)

    def quick(self, entry: Any, args: Any, kwargs: Any) -> Any:
        """The fast path of calls that an entry's mould serves; None where there is none."""
        return None if self.family is None else self.family.moulds.quick(entry, args, kwargs)


class _Known:
    """Code of one text, or of a template: `holes` are places of numbers that the table has."""

    def __init__(self, tokens: list[str], holes: list[int], slots: int, code: Code) -> None:
        self.tokens, self.holes, self.slots, self.code = tokens, holes, slots, code
        self.open = set(holes)

    def fits(self, tokens: list[str], slots: int) -> bool:
        pairs = enumerate(zip(tokens, self.tokens, strict=True))
        return slots == self.slots and all(a == b or n in self.open for n, (a, b) in pairs)


class Templates:
    """The code of a family's programs, by the structure of their texts."""

    def __init__(self) -> None:
        self._known: dict[str, list[_Known]] = {}
        self._lock = threading.Lock()
        self.compiled = 0

    def code(self, text: str, slots: int) -> tuple[Code, list[int]]:
        """Code for a text, and the words that its table needs beyond `slots`."""
        tokens: list[str] = _NUMBER.findall(text)
        structure = _NUMBER.sub("~", text)
        with self._lock:
            listed = self._known.setdefault(structure, [])
            for known in listed:
                if known.fits(tokens, slots):
                    return known.code, [_word(tokens[place]) for place in known.holes]
            made = self._made(text, tokens, slots, listed)
            return made.code, [_word(tokens[place]) for place in made.holes]

    def _made(self, text: str, tokens: list[str], slots: int, listed: list[_Known]) -> _Known:
        self.compiled += 1
        others = [known for known in listed if known.slots == slots]
        if others:
            varied = {n for known in others for n in known.holes}
            varied |= {n for known in others for n, (a, b) in
                       enumerate(zip(tokens, known.tokens, strict=True)) if a != b}  # fmt: skip
            holes = sorted(varied)
            template = _with_holes(text, holes, slots)
            if template is not None:
                listed[:] = [_Known(tokens, holes, slots, Code(template))]
                return listed[0]
        made = _Known(tokens, [], slots, Code(text))
        listed.append(made)
        del listed[:-_MOST_KNOWN]
        return made


_PLACE = re.compile(r"~(\d+)~")


def with_words(text: str, slots: int) -> str:
    """A text whose numbers that vary (`ir/symbols.py`) are read from the table beyond `slots`."""
    lines: list[str] = []
    start = 0
    loads: dict[str, list[str]] = {}
    for line in text.split("\n"):
        if line.startswith("define "):
            start, loads = len(lines), {}
        parts: list[str] = []
        last = 0
        for match in _PLACE.finditer(line):
            found = _kind(line, match.start())
            if found is None or found[1] != 1:
                raise NotSymbolic(f"a number that varies must be fixed here: {line.strip()}")
            number, kind = int(match.group(1)), found[0]
            name = f"%h{number}.{kind}"
            loads.setdefault(name, _loads(name, slots + number, kind, 1))
            parts += [line[last : match.start()], name]
            last = match.end()
        lines.append("".join([*parts, line[last:]]))
        if line == "}" and loads:
            if "%B" not in lines[start]:
                raise NotSymbolic(f"a number that varies in a function without a table: {line}")
            labelled = lines[start + 1] == "entry:"
            at = start + 1 + labelled
            lines[at:at] = [one for listed in loads.values() for one in listed]
            loads = {}
    return "\n".join(lines)


def _word(token: str) -> int:
    """A number as a word of the table."""
    return int(token, 16) if token.startswith("0x") else int(token) % 2**64


def _with_holes(text: str, holes: list[int], slots: int) -> str | None:
    """The text with numbers read from the table; None where one stands where it must be fixed."""
    wanted = set(holes)
    lines: list[str] = []
    count = 0
    start = 0  # line of the function's beginning
    loads: list[str] = []
    seen = [0]
    for line in text.split("\n"):
        if line.startswith("define "):
            start, loads = len(lines), []
        made = line
        if any(True for _ in _NUMBER.finditer(line)):
            made_line = _line(line, wanted, seen, count, slots, loads)
            if made_line is None:
                return None
            made, count = made_line
        lines.append(made)
        if line == "}" and loads:
            if "%B" not in lines[start]:
                return None
            labelled = lines[start + 1] == "entry:"
            lines[start + 1 + labelled : start + 1 + labelled] = loads
            loads = []
    return None if loads else "\n".join(lines)


def _line(
    line: str, wanted: set[int], seen: list[int], count: int, slots: int, loads: list[str]
) -> tuple[str, int] | None:
    """One line, its varying numbers replaced by names; `loads` gets where they come from."""
    parts: list[str] = []
    last = 0
    for match in _NUMBER.finditer(line):
        place = seen[0]
        seen[0] += 1
        if place not in wanted:
            continue
        found = _kind(line, match.start())
        if found is None:
            return None
        kind, width, begin, end = *found, match.end()
        name = f"%h{count}"
        loads += _loads(name, slots + count, kind, width)
        if begin != match.start():
            end += 1  # the parenthesis of a splat
        parts += [line[last:begin], name]
        last = end
        count += 1
    return "".join([*parts, line[last:]]), count


def _kind(line: str, at: int) -> tuple[str, int, int] | None:
    """Type, width and beginning of the operand whose number stands at a place."""
    before = line[:at]
    splat = _SPLAT.search(before)
    real = _REAL.search(line)
    if splat is not None:
        if real is None or real.group(2) is None:
            return None
        return splat.group(1), int(real.group(2)), splat.start()
    typed = _TYPED.search(before)
    if typed is not None and "[" not in line and not line.startswith("@"):
        return typed.group(1), 1, at
    whole = _WHOLE.search(line)
    if whole is not None and before.endswith(", "):
        return whole.group(1), 1, at
    if real is not None and real.group(2) is None and before.endswith(", "):
        return real.group(1), 1, at
    return None


def _loads(name: str, slot: int, kind: str, width: int) -> list[str]:
    read = "double" if kind in ("float", "double") else "i64"
    raw = name if (kind == read and width == 1) else f"{name}.w"
    lines = [f"  {name}.p = getelementptr ptr, ptr %B, i64 {slot}",
             f"  {raw} = load {read}, ptr {name}.p"]  # fmt: skip
    one = raw
    if kind == "float":
        one = name if width == 1 else f"{name}.f"
        lines.append(f"  {one} = fptrunc double {raw} to float")
    elif kind == "i32":
        lines.append(f"  {name} = trunc i64 {raw} to i32")
    if width > 1:
        vector = f"<{width} x {kind}>"
        lines += [f"  {name}.i = insertelement {vector} poison, {kind} {one}, i32 0",
                  f"  {name} = shufflevector {vector} {name}.i, {vector} poison, "
                  f"<{width} x i32> zeroinitializer"]  # fmt: skip
    return lines
