"""The page in a real browser: Debian's chromium, driven by selenium."""

import shutil
import time

import pytest

import pullback as torch
from pullback.autograd.graph import show
from pullback.nn import Parameter

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="no chromium here; on Debian: apt-get install chromium chromium-driver",
    ),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # selenium's sockets
]

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--window-size=1300,900", "--force-prefers-reduced-motion"),
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens a page; at the end the console must have been silent."""

    def open_page(page):
        path = tmp_path / "graph.html"
        page.save(path)
        browser.get(path.as_uri())
        return browser

    yield open_page
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def nodes(browser):
    return browser.find_elements(By.CSS_SELECTOR, ".node")


def named(browser, name):
    for node in nodes(browser):
        if node.get_attribute("aria-label").split(", ")[0] == name:
            return node
    raise AssertionError(f"no node {name}")


def transform(browser):
    return browser.find_element(By.ID, "world").get_attribute("transform")


def text_of(browser, id_):
    return browser.find_element(By.ID, id_).text


def small():
    weight, bias = Parameter(torch.ones(3, 4)), Parameter(torch.ones(4))
    x = torch.ones(2, 3, requires_grad=True)
    hidden = (x @ weight + bias).tanh()
    loss = (hidden * hidden).sum()
    return show(loss, params={"weight": weight, "bias": bias, "x": x})


def block(x, w):
    return x + (x @ w).tanh().sigmoid()


def deep(layers=24):
    weights = [Parameter(torch.ones(3, 3) * 0.1) for _ in range(layers)]
    x = torch.ones(2, 3)
    for w in weights:
        x = block(x, w)
    return show(x.mean())


def test_the_page_opens_and_shows_every_node(opened):
    page = small()
    browser = opened(page)
    assert len(nodes(browser)) == len(page) == 8
    edges = sum(edge is not None for node in page.graph.nodes for edge in node.edges)
    drawn = len(browser.find_elements(By.CSS_SELECTOR, ".edge"))
    assert drawn == edges - 1  # hidden * hidden: two edges between the same boxes are one line
    assert "8 nodes" in text_of(browser, "counts")
    legend = text_of(browser, "legend").split()
    assert legend == ["operator", "5", "leaf", "1", "parameter", "2"]


def test_nothing_is_loaded_from_elsewhere(opened):
    browser = opened(small())
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_a_click_shows_the_details(opened):
    browser = opened(small())
    named(browser, "MmBackward0").click()
    shown = text_of(browser, "details")
    for fact in ("MmBackward0", "float32 [2, 4]", "72 B", "hidden = (x @ weight + bias).tanh()"):
        assert fact in shown
    assert "test_browser.py" in shown
    assert browser.find_element(By.CSS_SELECTOR, "#details mark").text == "x @ weight"
    browser.find_element(By.CSS_SELECTOR, "#details .go").click()
    assert browser.find_element(By.CSS_SELECTOR, "#details h2").text in ("x", "weight")
    browser.find_element(By.CSS_SELECTOR, "#details .close").click()
    assert not browser.find_element(By.ID, "details").is_displayed()


def test_the_search_finds_a_node_and_goes_there(opened):
    browser = opened(deep())
    field = browser.find_element(By.CSS_SELECTOR, "#search input")
    field.send_keys("sigmoid float32")
    assert text_of(browser, "found") == "24 found"
    field.send_keys(Keys.ENTER)
    assert text_of(browser, "found") == "1 of 24"
    assert browser.find_element(By.CSS_SELECTOR, "#details h2").text == "SigmoidBackward0"
    chosen = browser.find_element(By.CSS_SELECTOR, ".node.chosen")
    assert chosen.get_attribute("aria-label").startswith("SigmoidBackward0")
    field.clear()
    field.send_keys("nowhere")
    assert text_of(browser, "found") == "none"
    field.clear()
    field.send_keys("block tanh().sigmoid()")  # in the user's line
    assert text_of(browser, "found") == "96 found"
    field.send_keys(Keys.ESCAPE)
    assert text_of(browser, "found") == ""


def test_what_repeats_is_folded_and_opens(opened):
    page = deep()
    browser = opened(page)
    folded = len(nodes(browser))
    assert folded < 50
    browser.find_element(By.ID, "expand").click()
    assert len(nodes(browser)) == len(page)
    browser.find_element(By.ID, "collapse").click()
    assert len(nodes(browser)) < folded
    browser.find_element(By.CSS_SELECTOR, ".node.group").click()
    assert len(nodes(browser)) == folded
    browser.find_element(By.CSS_SELECTOR, ".fold .title").click()
    assert len(nodes(browser)) < folded


OVERLAPS = """
const found = [...document.querySelectorAll('.node > .box, .stub > rect')];
const boxes = found.map((element) => element.getBoundingClientRect());
let count = 0;
for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
  const a = boxes[i], b = boxes[j];
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (across > 1 && down > 1) count++;
}
return count;
"""
TOO_WIDE = """
return [...document.querySelectorAll('.node')].filter((node) => {
  const edge = (element) => element.getBoundingClientRect().right;
  const texts = [...node.querySelectorAll('text')];
  return texts.some((text) => edge(text) > edge(node.querySelector('.box')));
}).length;
"""


@pytest.mark.parametrize("make", [small, deep])
def test_boxes_do_not_overlap_and_hold_their_text(opened, make):
    browser = opened(make())
    assert browser.execute_script(OVERLAPS) == 0
    assert browser.execute_script(TOO_WIDE) == 0
    browser.execute_script("document.getElementById('expand').click()")
    assert browser.execute_script(OVERLAPS) == 0
    browser.find_element(By.ID, "flip").click()
    assert browser.execute_script(OVERLAPS) == 0


def test_wheel_drag_and_keys_move_the_picture(opened):
    browser = opened(small())
    seen = [transform(browser)]

    def changed():
        seen.append(transform(browser))
        return seen[-1] != seen[-2]

    stage = browser.find_element(By.ID, "stage")
    ActionChains(browser).scroll_by_amount(0, -200).perform()
    ActionChains(browser).move_to_element_with_offset(
        stage, -500, 0
    ).click_and_hold().move_by_offset(40, 30).release().perform()
    assert changed()
    body = browser.find_element(By.TAG_NAME, "body")
    for key in ("+", "-", Keys.ARROW_LEFT, "0"):
        body.send_keys(key)
        assert changed(), key
    body.send_keys("/")
    assert browser.switch_to.active_element.get_attribute("type") == "search"


def test_the_keyboard_alone_reaches_the_details(opened):
    browser = opened(small())
    node = named(browser, "TanhBackward0")
    browser.execute_script("arguments[0].focus()", node)
    node.send_keys(Keys.ENTER)
    assert browser.find_element(By.CSS_SELECTOR, "#details h2").text == "TanhBackward0"
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert not browser.find_element(By.ID, "details").is_displayed()
    browser.find_element(By.TAG_NAME, "body").send_keys("?")
    assert browser.find_element(By.ID, "help").is_displayed()


def test_light_and_dark(opened):
    browser = opened(small())
    paper = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(paper)
    browser.find_element(By.ID, "theme").click()
    assert browser.execute_script(paper) != before


def test_a_kind_can_be_dimmed(opened):
    browser = opened(small())
    browser.find_element(By.CSS_SELECTOR, "#legend button[data-kind=parameter]").click()
    assert len(browser.find_elements(By.CSS_SELECTOR, ".node.dim")) == 2


def test_times_are_shown_after_a_profiled_backward(opened):
    x = torch.ones(1000, requires_grad=True)
    y = x.exp().sum()
    with torch.autograd.profiler.profile(profile_memory=True):
        y.backward()
    browser = opened(show(y))
    assert len(browser.find_elements(By.CSS_SELECTOR, ".heat")) == 3
    named(browser, "ExpBackward0").click()
    assert "of the pass" in text_of(browser, "details")
    assert "3.9 KiB allocated" in text_of(browser, "details")
    assert "freed" in text_of(browser, "details")


def test_the_picture_can_be_saved_as_svg(opened):
    browser = opened(small())
    browser.execute_script(
        "URL.createObjectURL = (blob) => { blob.text().then((t) => { window.saved = t; }); "
        "return '#'; }; URL.revokeObjectURL = () => {}; document.getElementById('save').click()"
    )
    text = browser.execute_async_script(
        "const done = arguments[0]; const look = () => window.saved ? done(window.saved) : "
        "setTimeout(look, 20); look();"
    )
    import xml.etree.ElementTree as ElementTree

    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert "MmBackward0" in text


def test_five_thousand_nodes_open_in_seconds(opened):
    w, u, h = (torch.ones(2, requires_grad=True) for _ in range(3))
    total = torch.zeros(())
    for _ in range(850):
        h = (h * w + u).tanh() * 0.5
        total = total + h.sum()
    page = show(total)
    assert len(page) > 5000
    start = time.perf_counter()
    browser = opened(page)
    assert 0 < len(nodes(browser)) < 100
    assert time.perf_counter() - start < 10
    field = browser.find_element(By.CSS_SELECTOR, "#search input")
    field.send_keys("tanh" + Keys.ENTER)
    assert text_of(browser, "found") == "1 of 850"
    assert time.perf_counter() - start < 20


def test_the_frame_of_a_notebook_shows_the_page(browser, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text("<!doctype html><meta charset=utf-8>" + small()._repr_html_(), "utf-8")
    browser.get(path.as_uri())
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    assert len(nodes(browser)) == 8
    browser.switch_to.default_content()
