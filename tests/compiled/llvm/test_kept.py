"""Object code on disk: what comes back, what does not, and that it does not grow for ever."""

import os

import pytest

from pullback.compiled.llvm import kept
from pullback.compiled.llvm.kept import Kept


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", str(tmp_path))
    kept._make_room.cache_clear()
    return tmp_path


def test_what_was_stored_comes_back_for_the_same_text_alone():
    Kept("text").store(b"code")
    assert Kept("text").load() == b"code"
    assert Kept("another").load() is None


def test_a_file_that_was_changed_counts_as_none(folder):
    Kept("text").store(b"code")
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert Kept("text").load() is None


@pytest.mark.parametrize("nowhere", ["0", "", "/dev/null/folder"])
def test_where_nothing_can_be_kept_nothing_is(monkeypatch, nowhere):
    monkeypatch.setenv("PULLBACK_CACHE", nowhere)
    Kept("text").store(b"code")
    assert Kept("text").load() is None


def test_of_too_many_files_those_used_last_stay(folder, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 4)
    for number in range(5):
        Kept(str(number)).store(b"code")
        os.utime(folder / Kept(str(number)).name, (number, number))
    assert Kept("0").load() == b"code"  # used now
    kept._make_room.cache_clear()
    Kept("5").store(b"code")
    there = [number for number in range(6) if Kept(str(number)).load() is not None]
    assert there == [0, 5]
