"""The gallery as pages of the site: an overview, and a page with the programs of each subject.

docs/gallery.md is one page to read in a checkout: its second headings are subjects, its third ones
programs. With all the code on it the page would be half a megabyte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

__all__ = ["EXAMPLES", "files", "pages", "with_code"]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
_EXAMPLE = re.compile(r"\[`examples/(\w+\.py)`\]\(\.\./examples/\1\)")


def pages(text: str) -> Iterator[tuple[str, str]]:
    """File and text of each page; the overview has what it had, with links to the programs."""
    overview, *subjects = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    for subject in subjects:
        title, _, body = subject.removeprefix("## ").partition("\n")
        file = _file(title)
        overview += f"## [{title}]({file})\n{_linked(body, file)}"
        programs = body.replace("\n### ", "\n## ")
        yield file, with_code(f"# {title}\n{programs}")
    yield "gallery.md", _EXAMPLE.sub(r"[`examples/\1`](examples/\1)", overview)


def files(text: str) -> list[str]:
    """The pages of the subjects, in order."""
    return [_file(title) for title in re.findall(r"^## (.*)$", text, re.MULTILINE)]


def _file(title: str) -> str:
    return f"gallery-{_anchor(title)}.md"


def _anchor(title: str) -> str:
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")


def _linked(body: str, file: str) -> str:
    """The part of the overview on a subject: each program's heading leads to its code."""
    return re.sub(
        r"^### (.*)$",
        lambda match: f"### [{match[1]}]({file}#{_anchor(match[1])})",
        body,
        flags=re.MULTILINE,
    )


def with_code(text: str) -> str:
    """A page with each program under the paragraph that names it, and a link to its file."""
    parts = []
    for part in text.split("\n\n"):
        named = _EXAMPLE.search(part)
        if named is None:
            parts.append(part)
            continue
        name = named[1]
        code = (EXAMPLES / name).read_text(encoding="utf-8")
        fenced = indent(f"``` {{ .python .run .program #{Path(name).stem} }}\n{code}```", "    ")
        title = f"The program, {len(code.splitlines())} lines"
        parts += [_EXAMPLE.sub(r"[`examples/\1`](examples/\1)", part).rstrip("\n")]
        parts += [f'??? example "{title}"\n\n{fenced}']
    return "\n\n".join(parts) + "\n"
