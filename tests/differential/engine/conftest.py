"""Passes are those of a program in which no class answers below autograd."""

import pytest

from pullback.engine import request as entry


@pytest.fixture(autouse=True)
def no_class_answers(monkeypatch):
    """Other files of tests keep such classes; then gradients of users' Functions are tensors."""
    monkeypatch.setattr(entry, "answering", {})
