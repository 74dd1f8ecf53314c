"""The page of every public name of torch, and of what there is of it here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from pullback.checking import names

__all__ = ["page"]

_HEAD = """# Every public name of torch

Written when the site is built, from the list of torch's public names and from pullback itself. Of
each module: how many of its names are here, which are here in part, and which are not, with the
reason. Names that are not listed under a module are here.

"""


def page() -> str:
    """The page as Markdown."""
    with warnings.catch_warnings(action="ignore"):  # reading old names warns, as in torch
        rows, details = [], []
        total = here = 0
        modules = [*names.public().items(), *names.classes().items()]
        for module, listed in sorted(modules, key=lambda pair: (pair[0] != "torch", pair[0])):
            start = "" if module == "torch" else f"{module}."
            found = {name: names.status(start + name) for name in listed}
            count = sum(status.kind in ("here", "partly") for status in found.values())
            total, here = total + len(found), here + count
            if not found:
                continue
            title = "torch" if module == "torch" else f"torch.{module}"
            rows.append(f"| `{title}` | {count} of {len(found)} |")
            details += _module(title, found)
    table = ["| module | here |", "|---|---|", *rows]
    summary = f"**{here} of {total} names are here.**\n\n"
    return _HEAD + summary + "\n".join(table) + "\n\n" + "\n".join(details) + "\n"


def _module(title: str, found: dict[str, names.Status]) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, status in found.items():
        if status.kind != "here":
            reasons.setdefault((status.kind, status.why), []).append(f"`{name}`")
    if not reasons:
        return
    yield f"## {title}\n"
    for (kind, why), listed in sorted(reasons.items(), reverse=True):
        yield f"- {'here in part' if kind == 'partly' else 'not here'}: {', '.join(listed)}: {why}."
    yield ""
