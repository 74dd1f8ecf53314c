"""For tests of custom operators: names that no other test uses."""

import itertools

import pytest

_numbers = itertools.count()


@pytest.fixture
def name():
    """A new qualified name."""
    return f"tests::op{next(_numbers)}"


@pytest.fixture
def namespace():
    """A new namespace."""
    return f"tests_space{next(_numbers)}"
