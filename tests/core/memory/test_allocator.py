"""The allocator keeps what is freed, unless asked not to."""

from __future__ import annotations

import sys

import pytest

from pullback.core.memory import allocator as memory


def test_the_environment_can_say_no(monkeypatch):
    monkeypatch.setenv("PULLBACK_KEEP_MEMORY", "0")
    assert memory.keep_freed_memory() is False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_thresholds_are_accepted_or_absent(monkeypatch):
    monkeypatch.delenv("PULLBACK_KEEP_MEMORY", raising=False)
    assert memory.keep_freed_memory() in (True, False)
    monkeypatch.setattr(sys, "platform", "other")
    assert memory.keep_freed_memory() is False
