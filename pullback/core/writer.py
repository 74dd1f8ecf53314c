"""The one writer: lines of text become a function.

Every function that the package writes comes through here: operators' and their nodes', those of
users' operators, of forward mode and of the engine, guards, compiled programs.

A part of a function is a list of lines from the margin; `filled` puts parts into a template,
`block` and `indented` into one another. A name that somebody else chose, such as that of a
parameter, is written with a mark before it: `theirs("mode")` is `$mode`. `named` takes the marks
away; where a name of ours is the same as one of theirs, ours gets an underscore. So no name is
forbidden, and the text reads as if it had been written by hand.

What the code calls is bound into its globals (`define`), or into its constants where the globals
are not ours (`with_constants`).
"""

from __future__ import annotations

import builtins
import itertools
import linecache
import re
import textwrap
import weakref
from collections.abc import Iterable
from types import CodeType
from typing import Any

from pullback.core.origin import GENERATED
from pullback.core.process.texts import TEXTS

__all__ = [
    *("block", "constant", "define", "define_once", "either", "filled", "indented", "named"),
    *("theirs", "with_constants"),
]

# In order: strings, comments, attributes and numbers are no names; what is left is one, with its
# mark. Keywords of calls are told by what follows, `f(name=...)`: an assignment has a space there.
# Compiled when first needed, as few functions have such names.
_TOKENS = (
    r"""'(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" | \#[^\n]* | \.[^\W\d]\w* | \d[\w.]*"""
    r"""| \$?[^\W\d]\w*(?:=(?!=))?"""
)
# A coarser look for clashes, at a fifth of the time: attributes and keywords count as names.
_APART = str.maketrans(dict.fromkeys("()[]{},:;.=+-*/<>%!&|^~@\n", " "))


def theirs(name: str) -> str:
    """A name that is not ours to choose, as it stands in lines that are not named yet."""
    return f"${name}"


def indented(lines: Iterable[str]) -> list[str]:
    """The lines, one step further to the right."""
    return ["    " + line for line in lines]


def block(head: str, lines: Iterable[str]) -> list[str]:
    """A statement with a body: `block("if x is None", ["return y"])`."""
    return [f"{head}:", *indented(lines)]


def filled(template: str, **parts: Any) -> list[str]:
    """The lines of a template, with parts in place of `{name}`.

    A name that has a line to itself stands for a list of lines, which may be empty.
    """
    lines: list[str] = []
    for line in template.strip("\n").split("\n"):
        part = parts.get(line.strip(" {}"))
        if isinstance(part, list):
            margin = line[: len(line) - len(line.lstrip())]
            lines += [margin + one for one in part]
        else:
            lines.append(line.format_map(parts))
    return lines


def either(conditions: Iterable[str], lines: list[str]) -> list[str]:
    """`if one or another`, with a body that leaves: in as many statements as keep each short."""
    groups: list[str] = []
    for condition in conditions:
        if groups and len(groups[-1]) + len(condition) < WIDTH - 15:
            groups[-1] += f" or {condition}"
        else:
            groups.append(condition)
    return [line for group in groups for line in block(f"if {group}", lines)]


WIDTH = 100
_STRINGS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_STATEMENT = re.compile(r"(if|elif|while|return|(?:[^()=]+ = )*[^()=]+ =) (.*?)(:?)$")


def folded(text: str) -> str:
    """The text with no line longer than a page is wide, as far as there is a place to break it."""
    lines = [_folded(line) if len(line) > WIDTH else line for line in text.split("\n")]
    return "\n".join(lines)


def _folded(line: str) -> str:
    """A long line as several: broken inside brackets, which it gets where it has none."""
    body = line.lstrip()
    margin = line[: len(line) - len(body)]
    found = _STATEMENT.match(body)
    if found and " " in _apart(found[2]):
        body = f"{found[1]} ({found[2]}){found[3]}"
    made = textwrap.wrap(
        _apart(body).replace(" ", "\0").replace("\1", " "), WIDTH, initial_indent=margin,
        subsequent_indent=f"{margin}        ", break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(made).replace("\0", " ")


def _apart(text: str) -> str:
    """The text, marked at each space where it may be broken: in brackets, and in no string."""
    depth, made = 0, []
    for own, sign in zip(text, _STRINGS.sub(lambda one: "_" * len(one[0]), text), strict=True):
        depth += (sign in "([{") - (sign in ")]}")
        made.append("\1" if depth and sign == " " else own)
    return "".join(made)


def named(lines: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The text without marks, and what became of those names of ours that are also theirs.

    >>> named(["def written($mode):", "    mode = get_mode()", "    return f($mode, mode)"])[1]
    {'mode': '_mode'}
    """
    text = "\n".join(lines)
    words = {*text.translate(_APART).split()}
    if words.isdisjoint([word[1:] for word in words if word[0] == "$"]):
        return folded(text.replace("$", "")), {}
    tokens = {*re.findall(_TOKENS, text, re.VERBOSE)}
    marked = {token[1:].removesuffix("=") for token in tokens if token[0] == "$"}
    renamed = {}
    for name in sorted(marked & tokens):
        new = f"_{name}"
        while new in marked or new in tokens:
            new = f"_{new}"
        renamed[name] = new

    def settle(found: re.Match[str]) -> str:
        token = found[0]
        return token[1:] if token[0] == "$" else renamed.get(token, token)

    return folded(re.sub(_TOKENS, settle, text, flags=re.VERBOSE)), renamed


def define(lines: Iterable[str], scope: dict[str, Any], title: str) -> Any:
    """The function that the lines, those of one `def`, define; `scope` is its globals.

    What it calls by another name than we do gets that name there, too. Tracebacks show the lines,
    in a file that is called after the title.
    """
    file = f"{GENERATED}{title}>"
    text, renamed = named(lines)
    for name, new in renamed.items():
        if name in scope:
            scope[new] = scope[name]
        elif hasattr(builtins, name):
            scope[new] = getattr(builtins, name)
    made: dict[str, Any] = {}
    _show(text, file)
    exec(TEXTS.compiled(text, file), scope, made)
    (function,) = made.values()
    return function


def define_once(
    text: str, scope: dict[str, Any], title: str, name: str, *, ours: bool = True
) -> Any:
    """The function `name` of a named text for one occasion, whose lines are forgotten with it.

    Unless it is `ours`, its lines are lines of the user's where we say who called.
    """
    if ours:
        file = f"{GENERATED}{title} {next(_occasions)}>"
        code = _in_file(TEXTS.compiled(text, title), file)
    else:
        file = f"<{title} {next(_occasions)}>"
        code = compile(text, file, "exec")
    _show(text, file)
    exec(code, scope)
    function = scope.pop(name)
    weakref.finalize(function, linecache.cache.pop, file, None).atexit = False
    return function


_occasions = itertools.count(1)


def _in_file(code: CodeType, file: str) -> CodeType:
    """The code, with that of the functions in it, as code of another file."""
    inner = (_in_file(one, file) if type(one) is CodeType else one for one in code.co_consts)
    return code.replace(co_filename=file, co_consts=tuple(inner))


def _show(text: str, file: str) -> None:
    """Let tracebacks have the lines."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)


def constant(name: str) -> str:
    """What stands in the lines for a value that `with_constants` brings."""
    return repr(f"stands for {name}")


def with_constants(code: CodeType, **values: Any) -> CodeType:
    """The code with values in place of what stands for them: its globals are not ours."""
    known = {f"stands for {name}": value for name, value in values.items()}
    constants = (known.get(one, one) if type(one) is str else one for one in code.co_consts)
    return code.replace(co_consts=tuple(constants))
