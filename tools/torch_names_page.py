"""The pages of every public name of torch, and of what there is of it here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from pullback.checking import names

__all__ = ["LETTERS", "files", "pages"]

_HEAD = """# Every public name of torch

Written when the site is built, from the list of torch's public names and from pullback itself. Of
each module: how many of its names are here. Where some are missing, or are here in part, the module
is a link to which they are, with the reason.

"""

# The first letters of the modules on each page of details; torch itself and its classes come first.
LETTERS = ("", "a-c", "d", "e-m", "n", "o-z")


def files() -> list[str]:
    """The pages, in order."""
    return ["torch-names.md", *map(_file_of, LETTERS)]


def pages() -> Iterator[tuple[str, str]]:
    """File and text of each page: the table of all modules, then those with the reasons."""
    details: dict[str, list[str]] = {letters: [] for letters in LETTERS}
    rows = []
    total = here = 0
    with warnings.catch_warnings(action="ignore"):  # reading old names warns, as in torch
        modules = [*names.public().items(), *names.classes().items()]
        for module, listed in sorted(modules, key=lambda pair: (pair[0] != "torch", pair[0])):
            start = "" if module == "torch" else f"{module}."
            found = {name: names.status(start + name) for name in listed}
            count = sum(status.kind in ("here", "partly") for status in found.values())
            total, here = total + len(found), here + count
            if not found:
                continue
            title = "torch" if module == "torch" else f"torch.{module}"
            lines = list(_module(title, found))
            shown = f"[`{title}`]({_file(module)}#{title})" if lines else f"`{title}`"
            rows.append(f"| {shown} | {count} of {len(found)} |")
            details[_letters(module)] += lines
    table = ["| module | here |", "|---|---|", *rows]
    summary = f"**{here} of {total} names are here.**\n\n"
    yield "torch-names.md", _HEAD + summary + "\n".join(table) + "\n"
    for letters, lines in details.items():
        which = f"modules {letters[0]} to {letters[-1]}" if letters else "torch and its classes"
        which = f"modules with {letters}" if len(letters) == 1 else which
        head = f"# Names of torch: {which}\n\n[All modules](torch-names.md). Names that are not "
        yield _file_of(letters), head + "listed under a module are here.\n\n" + "\n".join(lines)


def _letters(module: str) -> str:
    """The group of a module; classes, whose names begin with a capital, are in the first one."""
    first = module[0]
    if module == "torch" or first.isupper():
        return ""
    return next(one for one in LETTERS if one and one[0] <= first <= one[-1])


def _file(module: str) -> str:
    return _file_of(_letters(module))


def _file_of(letters: str) -> str:
    return f"torch-names-{letters or 'torch'}.md"


def _module(title: str, found: dict[str, names.Status]) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, status in found.items():
        if status.kind != "here":
            reasons.setdefault((status.kind, status.why), []).append(f"`{name}`")
    if not reasons:
        return
    yield f"## {title} {{ #{title} }}\n"
    for (kind, why), listed in sorted(reasons.items(), reverse=True):
        yield f"- {'here in part' if kind == 'partly' else 'not here'}: {', '.join(listed)}: {why}."
    yield ""
