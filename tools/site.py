"""Builds the pages as a site that needs no network to be read: `make docs`, into build/site.

The pages of docs/ and those written from the package (reference, torch's names) are put together in
build/pages and built by mkdocs, strictly: a link or an anchor that leads nowhere ends the build.
Code of the tutorial and the gallery can be run on the page, by Pyodide, which a visitor's browser
loads from the address `--pyodide` when a button is pressed, and not before.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pullback import installed
from tools import browser, gallery_pages, notebooks, reference, subjects, torch_names_page, versions

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
CONFIGURATION = ROOT / "build" / "mkdocs.yml"

ASSETS = ROOT / "tools" / "site_assets"
EXAMPLES = gallery_pages.EXAMPLES

# Where Python for browsers comes from: any copy of Pyodide that has NumPy serves, also one beside
# the site. A relative address counts from the start page. `make test-wasm` has passed with this
# version, which is CPython 3.13.
PYODIDE = "https://cdn.jsdelivr.net/pyodide/v0.29.3/full/"

# Pages by tab, and by group within it; a page of docs/ that is named nowhere goes under "Project".
NAV: dict[str, list[str] | dict[str, list[str]]] = {
    "Tutorial": sorted(f"tutorial/{page.name}" for page in (DOCS / "tutorial").glob("*.md")),
    "Examples": [
        "gallery.md",
        *gallery_pages.files((DOCS / "gallery.md").read_text(encoding="utf-8")),
    ],
    "From torch or JAX": {
        "What is the same, what differs": [
            *("coming-from-torch.md", "cheat-sheet.md", "coming-from-jax.md", "clients.md"),
        ],
        "Every name of torch": torch_names_page.files(),
    },
    "Guides": {
        "Tensors, layers, optimizers": [
            *("tensors.md", "modules.md", "optim.md", "data.md", "random.md", "distributions.md"),
            *("sparse.md", "nested.md", "mixed-precision.md"),
        ],
        "Derivatives": [
            *("transforms.md", "derivatives.md", "custom-functions.md", "numbers.md"),
            "engine-order.md",
        ],
        "Debugging": ["faq.md", "debugging.md", "seeing-the-graph.md", "backward-as-source.md"],
        "Speed and memory": [
            *("performance.md", "compiled.md", "memory.md", "checkpointing.md", "benchmarks.md"),
        ],
        "GPUs and many processes": ["gpu.md", "distributed.md"],
        "Extending": ["custom-operators.md", "dispatch.md", "subclasses.md", "array-api.md"],
    },
    "How it works": [
        "architecture.md",
        *sorted(f"architecture/{page.name}" for page in (DOCS / "architecture").glob("*.md")),
        *("from-scratch.md", "coverage.md", "coverage-cuda.md", "accuracy.md"),
    ],
    "Project": ["glossary.md", "changelog.md", "contributing.md"],
}
# Files beside docs/ that are pages too.
BESIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")
_EXTERNAL = re.compile(r"""<(?:script|img|link|iframe)[^>]+(?:src|href)=["']?https?://""")


def main(arguments: list[str] | None = None) -> int:
    """Build, check; the exit status."""
    parser = argparse.ArgumentParser(prog="make docs", description=__doc__)
    parser.add_argument("--pyodide", default=PYODIDE, help="address of Pyodide (%(default)s)")
    parser.add_argument("--versions", type=Path, help="folder of all versions, to add this one to")
    given = parser.parse_args(arguments)
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    assemble(given.pyodide)
    told = configuration(versioned=given.versions is not None)
    CONFIGURATION.write_text(json.dumps(told, indent=1), encoding="utf-8")  # JSON is YAML
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # news about mkdocs itself
    built = subprocess.run([*command, "-f", str(CONFIGURATION)], check=False, env=quiet)
    if built.returncode:
        return built.returncode
    problems = list(loaded_from_elsewhere())
    for problem in problems:
        print(f"docs: {problem}")
    place = SITE
    if given.versions is not None and not problems:
        place = versions.add(SITE, installed.version(), given.versions)
    count = len(list(place.rglob("*.html")))
    print(f"docs: {count} pages; open {place / 'index.html'} in a browser, no server is needed")
    return 1 if problems else 0


def assemble(pyodide: str = PYODIDE) -> None:
    """Put all pages together in build/pages."""
    shutil.copytree(DOCS, PAGES, ignore=shutil.ignore_patterns("spec"))
    shutil.copytree(ASSETS, PAGES / "assets")
    settings = json.dumps({"pyodide": pyodide})
    package = base64.b64encode(browser.archive()).decode()
    for name, text in (
        ("run-settings.js", f"window.pullbackRun = {settings};\n"),
        ("run-package.js", f'window.pullbackPackage = "{package}";\n'),
    ):
        (PAGES / "assets" / name).write_text(text, encoding="utf-8")
    shutil.copytree(EXAMPLES, PAGES / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name, page in BESIDE.items():
        (PAGES / page).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (PAGES / "reference").mkdir()
    gallery = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for file, text in (*torch_names_page.pages(), *gallery_pages.pages(gallery)):
        (PAGES / file).write_text(text, encoding="utf-8")
    for file, _, text in reference.pages():
        (PAGES / file).write_text(text, encoding="utf-8")
    for made in notebooks.write(PAGES / "tutorial"):
        link = f"[This page as a notebook]({made.name})\n"
        _change(f"tutorial/{made.stem}.md", lambda text, link=link: f"{runnable(text)}\n{link}")
    # A tab of one page needs no column that lists it.
    _change("index.md", lambda text: f"---\nhide:\n  - navigation\n---\n{text}")
    for page in PAGES.rglob("*.md"):
        if page.parent.name != "reference":
            text = page.read_text(encoding="utf-8")
            page.write_text(with_links_inside(text, page), encoding="utf-8")


def _change(page: str, how: Callable[[str], str]) -> None:
    (PAGES / page).write_text(how((PAGES / page).read_text(encoding="utf-8")), encoding="utf-8")


def runnable(text: str) -> str:
    """A page whose blocks of Python have a button that runs them."""
    return re.sub(r"^```python$", "``` { .python .run }", text, flags=re.MULTILINE)


def with_links_inside(text: str, page: Path) -> str:
    """A page whose links lead to pages of the site; of one to other files its text remains."""

    def link(match: re.Match[str]) -> str:
        shown, target = match.groups()
        file, _, anchor = target.partition("#")
        name = file.removeprefix("../").removeprefix("docs/")
        name = BESIDE.get(name, name)
        if place_inside(page.parent / file) and file.endswith((".py", ".ipynb")):
            return match[0]
        for place in (page.parent / file, PAGES / name):
            if place.suffix == ".md" and place.exists():
                up = "../" * len(page.parent.relative_to(PAGES).parts)
                inside = place.resolve().relative_to(PAGES)
                return f"[{shown}]({up}{inside}{'#' + anchor if anchor else ''})"
        if (ROOT / name).exists():  # code, tests: part of the checkout, not of the site
            return f"{shown}"
        return match[0]

    return _LINK.sub(link, text)


def place_inside(file: Path) -> bool:
    """Whether a link to this file stays within the site."""
    return file.exists() and file.resolve().is_relative_to(PAGES.resolve())


def listed() -> list[str]:
    """Every page that a tab names."""
    groups = [list(one.values()) if isinstance(one, dict) else [one] for one in NAV.values()]
    return [page for tab in groups for pages in tab for page in pages]


def navigation() -> list[Any]:
    """The tabs, with each page that exists."""
    named = {*listed(), "index.md"}
    found = {str(page.relative_to(PAGES)) for page in PAGES.rglob("*.md")}
    extra = sorted(page for page in found - named if not page.startswith("reference/"))
    sections: list[Any] = [{"Home": "index.md"}]
    for title, pages in NAV.items():
        if isinstance(pages, dict):
            groups = [
                {group: [page for page in of if page in found]} for group, of in pages.items()
            ]
            sections.append({title: groups})
            continue
        here = [page for page in pages if page in found] + (extra if title == "Project" else [])
        sections.append({title: here[0] if len(here) == 1 else here})
    sections.insert(-2, {"API reference": _of_reference()})
    return sections


def _of_reference() -> list[Any]:
    """Modules of the reference, each with its subjects and the modules inside it."""
    places: dict[str, list[Any]] = {}
    for path, title in reference.MODULES.items():
        pages: list[Any] = [{"Overview": f"reference/{title}.md"}]
        if title in subjects.SUBJECTS:
            pages += [
                {subject: subjects.file_of(title, subject)}
                for subject in reference.by_subject(path, title)
            ]
        home = next((one for one in places if one != "torch" and title.startswith(f"{one}.")), "")
        places.setdefault(home, []).append({title: pages})
        if not home:
            places[title] = pages
    return [_without_section(one) for one in places[""]]


def _without_section(entry: dict[str, Any]) -> dict[str, Any]:
    """A module of a single page as that page, and so for those inside it."""
    ((title, pages),) = entry.items()
    if len(pages) == 1:
        return {title: pages[0]["Overview"]}
    return {
        title: [
            _without_section(one) if isinstance(next(iter(one.values())), list) else one
            for one in pages
        ]
    }


def configuration(*, versioned: bool = False) -> dict[str, Any]:
    """What mkdocs is told. No fonts and no scripts from elsewhere."""
    version = {"version": {"provider": "mike", "default": "latest"}} if versioned else {}
    scheme = {"primary": "custom", "accent": "custom"}  # the colours of site_assets/pullback.css
    # As the visitor's system has it, until the button in the header is pressed.
    choices = [
        ("(prefers-color-scheme)", "default", "brightness-auto", "Switch to light"),
        ("(prefers-color-scheme: light)", "default", "brightness-7", "Switch to dark"),
        ("(prefers-color-scheme: dark)", "slate", "brightness-4", "Switch to the system's"),
    ]
    palette = [
        {
            "media": media,
            "scheme": own,
            **scheme,
            "toggle": {"icon": f"material/{icon}", "name": name},
        }
        for media, own, icon, name in choices
    ]
    return {
        "site_name": "pullback",
        "docs_dir": str(PAGES),
        "site_dir": str(SITE),
        "use_directory_urls": False,  # so that the files can be opened without a server
        "theme": {
            "name": "material",
            "font": False,
            "logo": "assets/mark.svg",
            "favicon": "assets/favicon.svg",
            "palette": palette,
            "features": [
                *("navigation.tabs", "navigation.footer", "navigation.prune"),
                *("content.code.copy", "toc.follow"),
            ],
        },
        "extra_css": ["assets/pullback.css"],
        "extra_javascript": ["assets/run-settings.js", "assets/run.js"],
        # A page opened as a file may start no worker, so the search's runs in a frame.
        "extra": {"polyfills": ["assets/iframe-worker.js"], "generator": False, **version},
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            *("admonition", "tables", "attr_list", "pymdownx.details"),
            *("pymdownx.highlight", "pymdownx.superfences"),
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
