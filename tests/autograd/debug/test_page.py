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
    assert shown(browser) == "after AccumulateGrad"
    body.send_keys(Keys.HOME)
    assert shown(browser) == "before SumBackward0"


def test_it_goes_to_breaks_and_to_large_gradients(opened):
    browser = opened(recorded())
    browser.find_element(By.ID, "break").click()
    assert shown(browser) == "before ExpBackward0"
    browser.find_element(By.ID, "first").click()
    browser.find_element(By.ID, "limit").send_keys("10")
    browser.find_element(By.ID, "break").click()
    assert shown(browser) == "before AccumulateGrad"


def test_a_stop_shows_values_lines_and_what_was_saved(opened):
    browser = opened(recorded())
    browser.find_elements(By.CSS_SELECTOR, "#steps li")[5].click()
    text = browser.find_element(By.ID, "stop").text
    for part in ("after ExpBackward0", "x.exp() * 2", "arrived 0", "given 0", "saved out", "20.09"):
        assert part in text
    assert browser.find_elements(By.CSS_SELECTOR, "#stop svg rect")


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
