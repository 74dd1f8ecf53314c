"""For every test: how long hypothesis searches, that no mode is left behind, what `torch` is."""

import gc
import logging
import os

import pytest
from hypothesis import settings

from tests.modes import modes_kept

settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("night", max_examples=5000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser):
    parser.addoption(
        "--stand-in",
        action="store_true",
        help="run with pullback in torch's place: its modules, classes and functions say torch",
    )


def pytest_configure(config):
    if config.getoption("--stand-in"):
        import pullback

        pullback.stand_in()


@pytest.fixture(autouse=True, scope="module")
def nothing_old_is_collected_again():
    """Tests that ask for a collection (four seconds at the end of a long run) look at their own."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def logs_are_still_heard():
    """What switches logging off for the whole process takes the log from the tests after it."""
    yield
    assert not logging.root.manager.disable


@pytest.fixture(autouse=True)
def no_mode_left_behind():
    with modes_kept():
        yield
