"""The pages make a site: every page is in it, links lead somewhere, all is local."""

import importlib.util
import re
from pathlib import Path

import pytest

from pullback.checking import names
from tools import reference, site, torch_names_page

DOCS = site.DOCS
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "spec"]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
GENERATED = {"torch-names.md"}


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_of_a_page_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for file, anchor in LINK.findall(text):
        target = (page.parent / file) if file else page
        assert target.exists() or file in GENERATED, f"{page.name}: {file}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {file}#{anchor}"


def test_every_page_that_the_site_names_exists():
    listed = {page for pages in site.NAV.values() for page in pages}
    made = GENERATED | set(site.BESIDE.values())
    assert [page for page in sorted(listed - made) if not (DOCS / page).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_names_of_torch_that_a_page_speaks_of_are_here(page):
    spoken = re.findall(r"`torch\.([A-Za-z][\w.]*\w)(?:\(|`)", page.read_text(encoding="utf-8"))
    found = {path: names.status(path).kind for path in spoken}
    assert [path for path, kind in found.items() if kind == "unknown"] == []


def test_links_to_the_checkout_become_text_and_links_to_pages_stay():
    page = site.PAGES / "tutorial" / "1.md"
    assert site.with_links_inside("[a](../../README.md)", page) == "[a](../../README.md)"
    assert site.with_links_inside("[code](../pullback)", page) == "code"
    assert site.with_links_inside("[web](https://example.org)", page).startswith("[web](https")


def test_a_page_of_reference_has_signatures_and_fenced_examples():
    text = reference.page("func", "torch.func")
    assert "## `vmap`" in text
    assert "```python\n>>>" in text
    assert "torch.func.grad(" in text
    assert text.count("```") % 2 == 0


@pytest.mark.filterwarnings("ignore")  # reading old names warns, as in torch
def test_the_page_of_names_counts_what_is_here():
    text = torch_names_page.page()
    assert re.search(r"\*\*\d+ of \d+ names are here", text)
    assert "## torch.nn.functional" in text


@pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="mkdocs-material builds it"
)
@pytest.mark.filterwarnings("ignore")
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(site, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(site, "SITE", tmp_path / "site")
    monkeypatch.setattr(site, "CONFIGURATION", tmp_path / "mkdocs.yml")
    assert site.main() == 0
    assert (tmp_path / "site" / "index.html").exists()
    assert (Path(tmp_path) / "site" / "reference" / "torch.nn.html").exists()
