"""Programs of the engine's tests run through the plain pass and through the ordered one."""

import pytest

from pullback.engine import backward as entry


@pytest.fixture(params=["plain", "ordered"])
def both_passes(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")
