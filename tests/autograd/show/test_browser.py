"""The page in a real browser: Debian's chromium, driven by selenium."""

import random
import time

import pytest

import pullback as torch
from pullback import nn
from pullback.autograd.graph import name_modules, show
from pullback.nn import Parameter

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium's sockets


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
    assert time.perf_counter() - start < 20
    field = browser.find_element(By.CSS_SELECTOR, "#search input")
    field.send_keys("tanh" + Keys.ENTER)
    assert text_of(browser, "found") == "1 of 850"
    assert time.perf_counter() - start < 40


def test_the_frame_of_a_notebook_shows_the_page(browser, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text("<!doctype html><meta charset=utf-8>" + small()._repr_html_(), "utf-8")
    browser.get(path.as_uri())
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    assert len(nodes(browser)) == 8
    browser.switch_to.default_content()


# Modules, colours, what is not reached ------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.blocks = nn.Sequential(Block(8), nn.Tanh(), Block(8))
        self.head = nn.Linear(8, 2)
        self.extra = nn.Linear(8, 8)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x)))


def of_model(**options):
    torch.manual_seed(0)
    model = Model()
    with name_modules(model):
        loss = model(torch.randn(5, 4)).pow(2).mean()
    return show(loss, params=model, **options)


def test_modules_are_folds_in_folds(opened):
    browser = opened(of_model())
    browser.find_element(By.ID, "collapse").click()
    labels = [node.get_attribute("aria-label") for node in nodes(browser)]
    assert any(label.startswith("⊞ blocks: Sequential") for label in labels)
    browser.find_element(By.CSS_SELECTOR, ".node.group").click()
    browser.find_element(By.ID, "expand").click()
    titles = [one.text for one in browser.find_elements(By.CSS_SELECTOR, ".fold .title")]
    assert {"⊟ blocks: Sequential", "⊟ blocks.0: Block", "⊟ blocks.2: Block"} <= set(titles)
    named(browser, "TanhBackward0").click()
    assert "blocks.1: Tanh()" in text_of(browser, "details")
    assert browser.execute_script(OVERLAPS) == 0


def test_parameters_that_are_not_reached_are_shown_with_the_reason(opened):
    browser = opened(of_model())
    browser.find_element(By.ID, "expand").click()
    assert "unreached" in text_of(browser, "legend")
    named(browser, "extra.weight").click()
    assert "no graph that is alive has it" in text_of(browser, "details")


@pytest.mark.parametrize("measure", ["bytes", "norm"])
def test_nodes_are_coloured_by_what_they_cost_or_carry(opened, measure):
    browser = opened(of_model(norms=True))
    browser.find_element(By.ID, "expand").click()
    browser.find_element(By.CSS_SELECTOR, f"#heat option[value={measure}]").click()
    hot = browser.find_elements(By.CSS_SELECTOR, ".node.hot")
    assert len(hot) > 5
    heats = {
        float(browser.execute_script("return arguments[0].style.getPropertyValue('--hot')", one))
        for one in hot
    }
    assert max(heats) == 1
    assert len(heats) > 3
    assert " to " in text_of(browser, "scale")
    browser.find_element(By.CSS_SELECTOR, "#heat option[value='']").click()
    assert browser.find_elements(By.CSS_SELECTOR, ".node.hot") == []


def test_norms_that_were_asked_for_are_seen_at_once(opened):
    browser = opened(of_model(norms=True))
    assert browser.find_element(By.ID, "heat").get_property("value") == "norm"
    assert browser.find_elements(By.CSS_SELECTOR, ".node.hot")
    assert " to " in text_of(browser, "scale")
    browser = opened(of_model())
    assert browser.find_element(By.ID, "heat").get_property("value") == ""
    assert browser.find_elements(By.CSS_SELECTOR, ".node.hot") == []


def test_colours_by_time_after_a_profiled_pass(opened):
    x = torch.ones(1000, requires_grad=True)
    y = x.exp().sum()
    with torch.autograd.profiler.profile():
        y.backward()
    browser = opened(show(y))
    options = [one.get_attribute("value") for one in browser.find_elements(By.TAG_NAME, "option")]
    assert options == ["", "time"]


# The first screen, many nodes ---------------------------------------------------------------------

OUTSIDE = """
const space = document.querySelector('header').getBoundingClientRect().bottom;
return [...document.querySelectorAll('.node > .box')].filter((box) => {
  const r = box.getBoundingClientRect();
  return r.left < 0 || r.top < space || r.right > innerWidth || r.bottom > innerHeight;
}).length;
"""


CALLS = ("exp", "tanh", "sigmoid", "sin", "cos", "neg", "abs", "relu")


def irregular(count, seed=0):
    """A graph in which nothing repeats."""
    draw = random.Random(seed)
    pool = [torch.ones(2, requires_grad=True) for _ in range(5)]
    for _ in range(count):
        one = draw.choice(pool[-12:])
        if draw.random() < 0.5:
            pool.append(one * draw.choice(pool[-20:]))
        else:
            pool.append(getattr(one, draw.choice(CALLS))())
    return show(sum((one.sum() for one in pool[-12:]), torch.zeros(())))


def test_the_first_screen_fits_fifty_nodes_and_names_can_be_read(opened):
    x = torch.ones(3, requires_grad=True)
    y = x
    draw = random.Random(1)
    for _ in range(48):
        y = getattr(
            y, draw.choice(("exp", "sin", "cos", "tanh", "neg", "abs", "sigmoid", "relu"))
        )()
    page = show(y.sum())
    assert len(page) == 50
    browser = opened(page)
    assert len(nodes(browser)) == 50
    assert browser.execute_script(OUTSIDE) == 0
    assert browser.execute_script(OVERLAPS) == 0
    heights = browser.execute_script(
        "return [...document.querySelectorAll('.node text')].map((text) => "
        "text.getBoundingClientRect().height).filter((height) => height)"
    )
    assert len(heights) >= 50
    assert min(heights) > 8


TITLES = """
return [...document.querySelectorAll('.fold')].map((fold) => {
  const box = fold.querySelector('rect').getBoundingClientRect();
  const title = fold.querySelector('.title').getBoundingClientRect();
  return title.right <= box.right && title.bottom <= box.bottom;
});
"""


def test_a_long_loop_goes_on_in_columns_and_its_title_fits(opened):
    browser = opened(deep(27))
    assert len(browser.find_elements(By.CSS_SELECTOR, ".node.group")) == 27
    fold = browser.find_element(By.CSS_SELECTOR, ".fold > rect").rect
    assert fold["width"] > 400
    assert fold["width"] > fold["height"] / 2
    assert browser.execute_script(OUTSIDE) == 0
    assert browser.execute_script(OVERLAPS) == 0
    for _ in range(12):
        assert all(browser.execute_script(TITLES))
        browser.find_element(By.TAG_NAME, "body").send_keys("-")


def test_fit_shows_an_irregular_graph_whole(opened):
    page = irregular(30)
    assert 45 <= len(page) <= 90
    browser = opened(page)
    browser.find_element(By.ID, "expand").click()
    browser.find_element(By.ID, "fit").click()
    assert browser.execute_script(OUTSIDE) == 0
    assert browser.execute_script(OVERLAPS) == 0


def test_five_thousand_irregular_nodes_expand_without_freezing_the_page(opened):
    page = irregular(8500)
    assert len(page) > 5000
    browser = opened(page)
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    browser.execute_script(
        "window.tasks = []; new PerformanceObserver((list) => list.getEntries().forEach((one) => "
        "tasks.push(one.duration))).observe({entryTypes: ['longtask']})"
    )
    before = _seconds(browser)
    browser.find_element(By.ID, "expand").click()
    browser.set_script_timeout(60)
    browser.execute_async_script(
        "const done = arguments[0]; const look = () => document.body.dataset.busy ? "
        "setTimeout(look, 20) : done(); look();"
    )
    assert len(nodes(browser)) == len(page)
    # Seconds that the page's thread computed: others may share the machine.
    assert _seconds(browser) - before < 3
    assert max(browser.execute_script("return tasks"), default=0) < 1500


def _seconds(browser):
    found = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(one["value"] for one in found if one["name"] == "ThreadTime")


# Keyboard and screen reader -----------------------------------------------------------------------


def focused(browser):
    return browser.switch_to.active_element.get_attribute("aria-label").split(", ")[0]


def test_arrows_go_along_the_edges(opened):
    browser = opened(small())
    browser.execute_script("arguments[0].focus()", named(browser, "SumBackward0"))
    seen = []
    for key in (Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP):
        browser.switch_to.active_element.send_keys(key)
        seen.append(focused(browser))
    assert seen == ["MulBackward0", "TanhBackward0", "MulBackward0"]
    assert browser.find_element(By.CSS_SELECTOR, "#details h2").text == "MulBackward0"


def test_folds_tell_whether_they_are_open_and_keep_the_focus(opened):
    browser = opened(of_model())
    browser.find_element(By.ID, "collapse").click()
    fold = browser.find_element(By.CSS_SELECTOR, ".node.group")
    assert fold.get_attribute("aria-expanded") == "false"
    browser.execute_script("arguments[0].focus()", fold)
    fold.send_keys(Keys.ENTER)
    title = browser.switch_to.active_element
    assert title.get_attribute("aria-expanded") == "true"
    title.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("aria-expanded") == "false"
    for name in ("details", "counts"):
        element = browser.find_element(By.ID, name)
        assert element.get_attribute("aria-live") or element.get_attribute("role")
