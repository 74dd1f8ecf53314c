"""The pages make a site: every page is in it, links lead somewhere, all is local."""

import doctest
import importlib.util
import inspect
import itertools
import json
import re
import time
import warnings

import pytest

import pullback as torch
from pullback.checking import names
from tools import gallery_pages, reference, site, subjects, torch_names_page, versions

DOCS = site.DOCS
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "spec"]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
GALLERY = (DOCS / "gallery.md").read_text(encoding="utf-8")
GENERATED = {*torch_names_page.files(), *gallery_pages.files(GALLERY)}


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
    listed = set(site.listed())
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


def test_the_gallery_shows_each_program_once_and_links_to_its_file():
    pages = dict(gallery_pages.pages(GALLERY))
    assert [*pages] == [*gallery_pages.files(GALLERY), "gallery.md"]
    overview = pages.pop("gallery.md")
    code = "".join(pages.values())
    for program in site.EXAMPLES.glob("*.py"):
        link = f"[`examples/{program.name}`](examples/{program.name})"
        assert link in overview
        assert code.count(link) == 1
        assert f"    {program.read_text(encoding='utf-8').splitlines()[0]}" in code
    assert "../examples/" not in code + overview


def test_the_overview_of_the_gallery_leads_to_each_program():
    pages = dict(gallery_pages.pages(GALLERY))
    links = re.findall(r"^### \[(.*)\]\((.*)#(.*)\)$", pages["gallery.md"], re.MULTILINE)
    assert len(links) == len(list(site.EXAMPLES.glob("*.py")))
    assert all(f"\n## {title}\n" in pages[file] for title, file, _ in links)
    assert "```" not in pages["gallery.md"].partition("\n## ")[2]


def test_every_tab_but_home_says_what_is_behind_it():
    vague = {"More", "Subjects", "Inside", "How to", "Coming from"}
    assert not vague & set(site.NAV)
    assert len(site.listed()) == len(set(site.listed()))


def test_the_home_page_installs_trains_shows_numbers_and_says_what_it_is_not():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert "pip install" in text
    assert "images/graph-small.png" in text
    assert "## What it is not" in text
    (program,) = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len([line for line in program.splitlines() if line]) <= 11
    torch.manual_seed(0)
    names = {}
    exec(program, names)
    assert names["loss"].item() < 0.01
    rows = re.findall(r"^\| .* \| \d.*\|$", text, re.M)
    measured = (DOCS / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 3
    assert set(rows) <= set(measured)


def test_modules_inside_a_module_stand_below_it():
    (listed,) = [one["API reference"] for one in site.navigation() if "API reference" in one]
    top = {title: pages for entry in listed for title, pages in entry.items()}
    assert top["torch.func"] == "reference/torch.func.md"
    inside = {title: pages for entry in top["torch.nn"] for title, pages in entry.items()}
    assert inside["Overview"] == "reference/torch.nn.md"
    assert inside["torch.nn.utils.rnn"] == "reference/torch.nn.utils.rnn.md"
    assert {"Overview": "reference/torch.nn.functional.md"} in inside["torch.nn.functional"]
    every = json.dumps(listed)
    assert all(every.count(f'"reference/{title}.md"') == 1 for title in reference.MODULES.values())


def test_large_modules_have_a_page_for_each_subject():
    for path, title in reference.MODULES.items():
        if title in subjects.SUBJECTS:
            groups = reference.by_subject(path, title)
            assert sorted(itertools.chain(*groups.values())) == reference.public_names(path)
            assert set(groups) == set(subjects.SUBJECTS[title])
    assert "matmul" in reference.by_subject("", "torch")["Linear algebra"]
    assert (
        "sigmoid_"
        in reference.by_subject("Tensor", "torch.Tensor")["Exponentials and trigonometry"]
    )


def test_a_page_of_reference_has_signatures_and_fenced_examples():
    text = reference.page("func", "torch.func")
    assert "## `vmap` { #vmap }" in text
    assert "```python\n>>>" in text
    assert "torch.func.grad(" in text
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda a: 0, "(a)"),
        (torch.Tensor.cumsum, "(input, dim, *, dtype=None, out=None)"),
        (torch.linalg.ldl_solve, "(LD, pivots, B, *, hermitian: bool = False, out=None)"),
    ],
)
def test_signatures_leave_out_types_that_say_nothing(function, shown):
    assert reference._signature(function).replace("\n    ", " ").replace("( ", "(") == shown


def examples(text):
    return [(one.source, one.want) for one in doctest.DocTestParser().get_examples(text)]


@pytest.mark.parametrize("path", ["", "linalg", "nn", "nn.functional", "optim", "func"])
@pytest.mark.filterwarnings("ignore")  # reading old names warns, as in torch
def test_examples_of_the_reference_are_those_of_the_docstrings(path):
    for name in reference.public_names(path):
        doc = inspect.getdoc(getattr(reference.found(path), name)) or ""
        fenced = "\n".join(reference._body(doc)).split("```")
        shown = [one.removeprefix("python\n") for one in fenced[1::2]]
        assert examples("\n".join(shown)) == examples(doc), name


@pytest.mark.filterwarnings("ignore")  # reading old names warns, as in torch
def test_the_page_of_names_counts_what_is_here():
    pages = dict(torch_names_page.pages())
    assert [*pages] == torch_names_page.files()
    first = pages["torch-names.md"]
    assert re.search(r"\*\*\d+ of \d+ names are here", first)
    assert all(pages.values())
    links = re.findall(r"\]\(([\w.-]+)#([\w.]+)\)", first)
    assert ("torch-names-n.md", "torch.nn.functional") in links
    assert all(f"## {title} {{ #{title} }}" in pages[file] for file, title in links)
    assert len(links) == sum(text.count("\n## ") for text in pages.values())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The exit status of the build, and its folder."""
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material builds it")
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reading old names warns, as in torch
        patch.setattr(site, "PAGES", folder / "pages")
        patch.setattr(site, "SITE", folder / "site")
        patch.setattr(site, "CONFIGURATION", folder / "mkdocs.yml")
        return site.main([]), folder / "site"


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(built):
    status, folder = built
    assert status == 0
    assert (folder / "index.html").exists()
    assert (folder / "reference" / "torch.nn.html").exists()
    sizes = {page.name: page.stat().st_size for page in folder.rglob("*.html")}
    assert {name: size for name, size in sizes.items() if size >= 200_000} == {}
    assert (folder / "examples" / "pinn.py").exists()
    first = (folder / "tutorial" / "1-first-gradient.html").read_text(encoding="utf-8")
    assert 'href="1-first-gradient.ipynb"' in first
    assert (folder / "tutorial" / "1-first-gradient.ipynb").exists()


def test_the_search_works_in_pages_that_are_opened_as_files(built, browser):
    browser.get_log("browser")
    browser.get((built[1] / "index.html").as_uri())
    browser.find_element("css selector", ".md-search__input").send_keys("checkpointing")
    first = "return document.querySelector('.md-search-result__item h1')?.innerText"
    for _ in range(300):
        if browser.execute_script(first):
            break
        time.sleep(0.1)
    assert "Checkpointing" in browser.execute_script(first)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_pages_have_the_colours_of_the_system_until_the_visitor_chooses(built, browser):
    def shown(system):
        media = [{"name": "prefers-color-scheme", "value": system}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        browser.get((built[1] / "index.html").as_uri())
        return browser.execute_script("return document.body.dataset.mdColorScheme")

    try:
        assert [shown(one) for one in ("light", "dark", "light")] == ["default", "slate", "default"]
        browser.execute_script("document.querySelectorAll('[name=__palette]')[2].click()")
        assert shown("light") == "slate"
    finally:
        browser.execute_script("localStorage.clear()")
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("page", ["index", "gallery", "cheat-sheet", "faq", "glossary", "compiled"])
def test_pages_fit_the_window(built, browser, page, width):
    shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    try:
        browser.get((built[1] / f"{page}.html").as_uri())
        wide = browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width


# Buttons that run code -------------------------------------------------------------------

STAND_IN = """
window.told = [];
window.terminated = 0;
window.pullbackRun.makeWorker = () => ({
  terminate() { window.terminated += 1; },
  say(data) { setTimeout(() => this.onmessage({ data })); },
  postMessage(message) {
    window.told.push(message);
    if (message.kind === "start") { this.say({ kind: "ready" }); return; }
    if (window.hangs) return;
    this.say({ kind: "text", id: message.id, data: `<b>${message.code.length}</b>\\n` });
    this.say({ kind: "image", id: message.id, data: "data:image/gif;base64,R0lGODlhAQABAAAAACw=" });
    this.say({ kind: "page", id: message.id, data: "<p>a graph</p>" });
    this.say({ kind: "done", id: message.id, ended: true });
  },
});
"""


@pytest.fixture
def opened(built, browser):
    """A page of the site whose cells are run by a stand-in for the worker."""

    def open_page(name):
        browser.get((built[1] / name).as_uri())
        browser.execute_script(STAND_IN)
        return browser

    return open_page


def until(browser, claim):
    for _ in range(300):
        if browser.execute_script(f"return {claim}"):
            return
        time.sleep(0.1)
    raise AssertionError(f"never: {claim}")


STATES = "[...document.querySelectorAll('.run-bar [role=status]')].map((e) => e.textContent)"


def press(browser, number):
    browser.execute_script(
        "document.querySelectorAll('.run-bar button')[arguments[0]].click()", number
    )


def test_a_press_runs_the_cells_above_first_and_shows_what_they_made(opened):
    browser = opened("tutorial/1-first-gradient.html")
    press(browser, 2)
    until(browser, f"{STATES}[2].startsWith('Done')")
    kinds = browser.execute_script(
        "return told.map((m) => [m.kind, m.id ?? null, m.program ?? ''])"
    )
    assert kinds == [["start", None, ""], *(["run", number, ""] for number in range(3))]
    start = browser.execute_script("return [told[0].pyodide, told[0].archive.length]")
    assert start[0] == site.PYODIDE
    assert start[1] > 1_000_000
    output = browser.find_elements("css selector", ".run-output")[2]
    assert output.find_element("tag name", "pre").text.startswith("<b>")  # text, not markup
    assert output.find_element("tag name", "img").get_attribute("alt")
    frame = output.find_element("tag name", "iframe")
    assert frame.get_attribute("sandbox") == "allow-scripts"
    press(browser, 0)
    until(browser, "told.length === 5")
    assert browser.execute_script("return told[4].id") == 0


def test_a_program_of_the_gallery_runs_alone_and_can_be_stopped(opened):
    browser = opened(gallery_pages.files(GALLERY)[0].replace(".md", ".html"))
    browser.execute_script("window.hangs = true")
    press(browser, 1)
    until(browser, "told.length === 2")
    program, code = browser.execute_script("return [told[1].program, told[1].code]")
    assert code == (site.EXAMPLES / program).read_text(encoding="utf-8")
    press(browser, 1)
    assert browser.execute_script("return terminated") == 1
    assert browser.execute_script(f"return {STATES}[1]") == "Stopped."
    browser.execute_script("window.hangs = false")
    press(browser, 1)  # a worker of its own
    until(browser, f"{STATES}[1].startsWith('Done')")
    assert browser.execute_script("return told.map((m) => m.kind)").count("start") == 2


def test_pages_without_programs_have_no_buttons_and_nothing_is_loaded_before_a_press(opened):
    assert not opened("compiled.html").find_elements("css selector", ".run-bar")
    browser = opened("tutorial/2-tensors.html")
    assert browser.find_elements("css selector", ".run-bar")
    loaded = "return performance.getEntriesByType('resource').map((e) => e.name).join(' ')"
    assert "run-package" not in browser.execute_script(loaded)
    assert browser.execute_script("return told") == []


def test_a_package_that_cannot_be_loaded_is_said_beside_the_button(opened):
    browser = opened("tutorial/2-tensors.html")
    browser.execute_script("""
        window.pullbackRun.makeWorker = () => ({ terminate() {}, postMessage() {
            this.onmessage({ data: { kind: "failed", data: "no Python there" } }); } });
    """)
    press(browser, 0)
    until(browser, f"{STATES}[0] === 'no Python there'")


def test_versions_lie_beside_one_another_and_the_start_page_leads_to_the_newest(tmp_path):
    made = tmp_path / "site"
    made.mkdir()
    (made / "index.html").write_text("first")
    folder = tmp_path / "all"
    for version in ("0.9.0", "0.10.0", "0.9.1"):
        versions.add(made, version, folder)
    listed = json.loads((folder / "versions.json").read_text())
    assert [entry["version"] for entry in listed] == ["0.10", "0.9"]
    assert [entry["title"] for entry in listed] == ["0.10.0", "0.9.1"]
    assert [entry["aliases"] for entry in listed] == [["latest"], []]
    assert "url=0.10/index.html" in (folder / "index.html").read_text()
