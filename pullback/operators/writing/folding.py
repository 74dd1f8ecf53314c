"""Breaks written lines that are longer than a page is wide, as one would by hand."""

from __future__ import annotations

import re

__all__ = ["WIDTH", "folded"]

WIDTH = 100
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_STRINGS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def folded(text: str) -> str:
    """The text with no line too long, as far as there is a place to break it."""
    if max(map(len, text.split("\n")), default=0) <= WIDTH:
        return text
    return "\n".join(part for line in text.split("\n") for part in _folded(line))


def _folded(line: str, *, inside: bool = False) -> list[str]:
    """The lines that one becomes; `inside` of brackets any space is a place to break."""
    if len(line) <= WIDTH:
        return [line]
    body = line.lstrip()
    margin = line[: len(line) - len(body)]
    if inside and (claims := _claims(body)):
        return [part for one in claims for part in _folded(margin + one, inside=True)]
    for broken in (_condition(body), _assigned(body), _items(body)):
        if broken:
            first, *inner, last = broken
            parts = [part for one in inner for part in _folded(f"{margin}    {one}", inside=True)]
            return [margin + first, *parts, margin + last]
    return [line]


def _claims(text: str) -> list[str]:
    """What is joined by `or`, or else by `and`: a line for each."""
    for word in (" or ", " and "):
        first, *more = _split(text, word)
        if more:
            return [first, *(f"{word.strip()} {one}" for one in more)]
    return []


def _condition(body: str) -> list[str]:
    """`if a or b:` in brackets, one claim a line."""
    found = re.match(r"(if|elif|while) (.*):$", body)
    claims = _claims(found[2]) if found else []
    return [f"{found[1]} (", *claims, "):"] if found and claims else []


def _assigned(body: str) -> list[str]:
    """`x = a if b else c` in brackets, a line for each; and what is joined by `or`."""
    *targets, value = _split(body, " = ")
    if not targets or body.startswith("def "):
        return []
    first = f"{' = '.join(targets)} = ("
    chosen = _split(value, " if ", 1)
    if len(chosen) < 2:
        claims = _claims(value)
        return [first, *claims, ")"] if claims else []
    condition, *other = _split(chosen[1], " else ", 1)
    return [first, chosen[0], f"if {condition}", *(f"else {one}" for one in other), ")"]


def _items(body: str) -> list[str]:
    """The items of the longest brackets, one a line; or the claims of what they hold together."""
    start, end = max(_brackets(body), key=lambda pair: pair[1] - pair[0], default=(0, 0))
    inside = body[start + 1 : end]
    if end - start < len(body) // 3:
        return []
    items = _split(inside, ", ")
    if len(items) > 1:
        lines = [f"{one.removesuffix(',')}," for one in items if one]
        return [body[: start + 1], *lines, body[end:]]
    claims = _claims(inside)
    return [body[: start + 1], *claims, body[end:]] if claims else []


def _brackets(body: str) -> list[tuple[int, int]]:
    """Where brackets that are in no others begin and end."""
    found, opened, plain = [], [], _without_strings(body)
    for place, sign in enumerate(plain):
        if sign in _CLOSING:
            opened.append(place)
        elif sign in _CLOSING.values() and opened:
            start = opened.pop()
            if not opened:
                found.append((start, place))
    return found


def _split(text: str, word: str, most: int = -1) -> list[str]:
    """The text apart at a word that is in no brackets."""
    plain = list(_without_strings(text))
    for start, end in _brackets(text):
        plain[start : end + 1] = "_" * (end + 1 - start)
    parts, start = [], 0
    for piece in "".join(plain).split(word, most):
        parts.append(text[start : start + len(piece)])
        start += len(piece) + len(word)
    return parts


def _without_strings(text: str) -> str:
    return _STRINGS.sub(lambda found: "_" * len(found[0]), text)
