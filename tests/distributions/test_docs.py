"""The programs of docs/distributions.md print what they show, and so do those in the code."""

import doctest
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import pullback.distributions

PAGE = Path(__file__).parents[2] / "docs" / "distributions.md"
PACKAGE = pullback.distributions
MODULES = [m.name for m in pkgutil.walk_packages(PACKAGE.__path__, "pullback.distributions.")]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_page_on_distributions_is_true():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=OPTIONS)
    assert tried > 10
    assert not failed


@pytest.mark.parametrize("name", ["pullback.distributions", *MODULES])
def test_examples_in_the_code_are_true(name):
    failed, _ = doctest.testmod(import_module(name), optionflags=OPTIONS)
    assert not failed
