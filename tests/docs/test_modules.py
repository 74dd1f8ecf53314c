"""Examples in docstrings of modules that are no public ones of torch print what they show."""

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = (
    *("pullback.distributions", "pullback.nested", "pullback.operators.nested"),
    *("pullback.operators.sparse", "pullback.optim", "pullback.sparse"),
)
FLAGS = {"pullback.distributions": doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE}


def modules():
    for package in PACKAGES:
        folder = getattr(importlib.import_module(package), "__path__", ())
        for name in (package, *(one.name for one in pkgutil.walk_packages(folder, f"{package}."))):
            yield pytest.param(name, FLAGS.get(package, 0), id=name)


@pytest.mark.parametrize(("name", "flags"), list(modules()))
def test_docstrings_print_what_they_show(name, flags):
    assert doctest.testmod(importlib.import_module(name), optionflags=flags).failed == 0
