"""Pages are looked at in a browser."""

from tests.browser import browser  # noqa: F401
