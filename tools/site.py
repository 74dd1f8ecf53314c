"""Builds the pages as a site that needs no network to be read: `make docs`, into build/site.

The pages of docs/ and those written from the package (reference, torch's names) are put together in
build/pages and built by mkdocs, strictly: a link or an anchor that leads nowhere ends the build.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import reference, torch_names_page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
CONFIGURATION = ROOT / "build" / "mkdocs.yml"

# Pages by section; a page of docs/ that is named nowhere goes under "More".
NAV: dict[str, list[str]] = {
    "Tutorial": sorted(f"tutorial/{page.name}" for page in (DOCS / "tutorial").glob("*.md")),
    "Coming from": ["coming-from-torch.md", "torch-names.md", "coming-from-jax.md", "clients.md"],
    "How to": [
        *("custom-functions.md", "custom-operators.md", "debugging.md", "seeing-the-graph.md"),
        *("backward-as-source.md", "memory.md"),
        *("checkpointing.md", "performance.md", "compiled.md", "mixed-precision.md"),
        *("distributed.md", "gpu.md", "data.md", "dispatch.md", "subclasses.md"),
        "array-api.md",
    ],
    "Subjects": [
        *("tensors.md", "transforms.md", "derivatives.md", "modules.md", "optim.md"),
        *("distributions.md", "sparse.md", "numbers.md", "random.md", "engine-order.md"),
    ],
    "Gallery": ["gallery.md"],
    "Inside": [
        "architecture.md",
        *sorted(f"architecture/{page.name}" for page in (DOCS / "architecture").glob("*.md")),
        "from-scratch.md",
        "coverage.md",
        "coverage-cuda.md",
        "accuracy.md",
        "contributing.md",
    ],
    "More": ["changelog.md"],
}
# Files beside docs/ that are pages too.
BESIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")
_EXTERNAL = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["']?https?://""")


def main() -> int:
    """Build, check; the exit status."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    assemble()
    CONFIGURATION.write_text(
        json.dumps(configuration(), indent=1), encoding="utf-8"
    )  # JSON is YAML
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # news about mkdocs itself
    built = subprocess.run([*command, "-f", str(CONFIGURATION)], check=False, env=quiet)
    if built.returncode:
        return built.returncode
    problems = list(loaded_from_elsewhere())
    for problem in problems:
        print(f"docs: {problem}")
    count = len(list(SITE.rglob("*.html")))
    print(f"docs: {count} pages in {SITE}")
    return 1 if problems else 0


def assemble() -> None:
    """Put all pages together in build/pages."""
    shutil.copytree(DOCS, PAGES, ignore=shutil.ignore_patterns("spec"))
    for name, page in BESIDE.items():
        (PAGES / page).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (PAGES / "torch-names.md").write_text(torch_names_page.page(), encoding="utf-8")
    (PAGES / "reference").mkdir()
    for file, _, text in reference.pages():
        (PAGES / file).write_text(text, encoding="utf-8")
    for page in PAGES.rglob("*.md"):
        if page.parent.name != "reference":
            text = page.read_text(encoding="utf-8")
            page.write_text(with_links_inside(text, page), encoding="utf-8")


def with_links_inside(text: str, page: Path) -> str:
    """A page whose links lead to pages of the site; of one to other files its text remains."""

    def link(match: re.Match[str]) -> str:
        shown, target = match.groups()
        file, _, anchor = target.partition("#")
        name = file.removeprefix("../").removeprefix("docs/")
        name = BESIDE.get(name, name)
        for place in (page.parent / file, PAGES / name):
            if place.suffix == ".md" and place.exists():
                up = "../" * len(page.parent.relative_to(PAGES).parts)
                inside = place.resolve().relative_to(PAGES)
                return f"[{shown}]({up}{inside}{'#' + anchor if anchor else ''})"
        if (ROOT / name).exists():  # code, tests: part of the checkout, not of the site
            return f"{shown}"
        return match[0]

    return _LINK.sub(link, text)


def navigation() -> list[Any]:
    """The sections, with each page that exists."""
    named = {page for pages in NAV.values() for page in pages} | {"index.md"}
    found = {str(page.relative_to(PAGES)) for page in PAGES.rglob("*.md")}
    extra = sorted(page for page in found - named if not page.startswith("reference/"))
    sections: list[Any] = [{"Home": "index.md"}]
    for title, pages in NAV.items():
        here = [page for page in pages if page in found] + (extra if title == "More" else [])
        sections.append({title: here[0] if len(here) == 1 else here})
    files = [{title: f"reference/{title}.md"} for title in reference.MODULES.values()]
    sections.insert(-2, {"Reference": files})
    return sections


def configuration() -> dict[str, Any]:
    """What mkdocs is told. No fonts and no scripts from elsewhere."""
    scheme = {"primary": "indigo", "accent": "deep orange"}
    toggles = [("default", "slate", "dark"), ("slate", "default", "light")]
    palette = [
        {
            "scheme": own,
            **scheme,
            "toggle": {"icon": "material/brightness-6", "name": f"Switch to {name}"},
        }
        for own, _, name in toggles
    ]
    return {
        "site_name": "pullback",
        "docs_dir": str(PAGES),
        "site_dir": str(SITE),
        "use_directory_urls": False,  # so that the files can be opened without a server
        "theme": {
            "name": "material",
            "font": False,
            "palette": palette,
            "features": ["navigation.tabs", "navigation.footer", "content.code.copy", "toc.follow"],
        },
        "plugins": ["search"],
        "markdown_extensions": [
            *("admonition", "tables", "attr_list", "pymdownx.highlight", "pymdownx.superfences"),
            {"toc": {"permalink": True, "toc_depth": 3}},
        ],
        "validation": {
            "nav": {"omitted_files": "warn", "not_found": "warn", "absolute_links": "warn"},
            "links": {
                "not_found": "warn",
                "absolute_links": "warn",
                "unrecognized_links": "warn",
                "anchors": "warn",
            },
        },
        "nav": navigation(),
    }


def loaded_from_elsewhere() -> Iterator[str]:
    """Places where a page would ask the network for a script, a style or a picture."""
    for page in sorted(SITE.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        for match in _EXTERNAL.finditer(text):
            if 'rel="canonical"' not in match[0]:
                yield f"{page.relative_to(SITE)} loads {match[0]}"


if __name__ == "__main__":
    sys.exit(main())
