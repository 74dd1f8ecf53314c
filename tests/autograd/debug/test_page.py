"""The recorded pass in a real browser: one can step forwards and backwards."""

import pytest

import pullback as torch
from pullback.autograd.graph import debug, memory_timeline, watch

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # selenium's sockets


@pytest.fixture
def opened(browser, tmp_path):
    def open_page(page):
        path = tmp_path / "page.html"
        page.save(path)
        browser.get(path.as_uri())
        return browser

    yield open_page
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def recorded():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    return debug((x.exp() * 2).sum(), "norm > 3", page=True)


def shown(browser):
    return browser.find_element(By.CSS_SELECTOR, "#stop h2").text


def test_buttons_and_keys_step_in_both_directions(opened):
    browser = opened(recorded())
    assert len(browser.find_elements(By.CSS_SELECTOR, "#steps li")) == 8
    assert shown(browser) == "before SumBackward0"
    browser.find_element(By.ID, "on").click()
    assert shown(browser) == "after SumBackward0"
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.ARROW_RIGHT)
    assert shown(browser) == "before MulBackward0"
    body.send_keys(Keys.ARROW_LEFT)
    assert shown(browser) == "after SumBackward0"
    body.send_keys(Keys.END)
    assert shown(browser) == "after AccumulateGrad of x"
    body.send_keys(Keys.HOME)
    assert shown(browser) == "before SumBackward0"


def test_it_goes_to_breaks_and_to_large_gradients(opened):
    browser = opened(recorded())
    browser.find_element(By.ID, "break").click()
    assert shown(browser) == "before ExpBackward0"
    browser.find_element(By.ID, "first").click()
    browser.find_element(By.ID, "limit").send_keys("10")
    browser.find_element(By.ID, "break").click()
    assert shown(browser) == "before AccumulateGrad of x"


def test_a_stop_shows_values_lines_and_what_was_saved(opened):
    browser = opened(recorded())
    browser.find_elements(By.CSS_SELECTOR, "#steps li")[5].click()
    text = browser.find_element(By.ID, "stop").text
    for part in (
        *("after ExpBackward0", "x.exp() * 2", "gradient of its output", "gradient for its input"),
        *("saved from the forward: out", "from 2.718 to 20.09"),
    ):
        assert part in text
    assert browser.find_elements(By.CSS_SELECTOR, "#stop svg rect")


def test_steps_are_named_by_operator_parameter_and_line(opened):
    model = torch.nn.Linear(2, 1)
    browser = opened(debug(model(torch.ones(3, 2)).sum(), params=model, page=True))
    steps = [one.text.split() for one in browser.find_elements(By.CSS_SELECTOR, "#steps li")]
    assert steps[0][:2] == ["▸", "Sum"]
    assert steps[0][-1].startswith("test_page.py:")
    assert ["▸", "accumulate", "weight"] in steps


@pytest.mark.parametrize("width", [1400, 400])
def test_a_page_of_many_values_fits_the_window(opened, width):
    x = torch.linspace(-1 / 3, 1, 400, requires_grad=True)
    shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser = opened(debug((x.exp() * x).sum(), page=True))
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    try:
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        browser.find_elements(By.CSS_SELECTOR, "#steps li")[2].click()
        text = browser.find_element(By.ID, "stop").text
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width
    assert "from -0.3333 to 1\n" in text


def test_the_other_pages_open_without_a_word(opened):
    x = torch.ones(100, requires_grad=True)
    run = watch({"x": x}, budget=1.0)
    for _ in range(5):
        loss = (x * x).sum()
        loss.backward()
        run.step(loss)
    for page in (run, memory_timeline(lambda: x.exp().sum())):
        browser = opened(page)
        assert browser.find_elements(By.TAG_NAME, "polyline")
        assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
