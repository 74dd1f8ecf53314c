"""Object code on disk: what comes back, what does not, and that it does not grow for ever."""

import hashlib
import os
import stat

import pytest

from pullback.compiled.llvm import kept
from pullback.compiled.llvm.kept import Kept
from pullback.core.process import own_files

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are of another kind")


def make_foreign(path, monkeypatch):
    """Let a path belong to somebody else: the superuser can give it away, others change names."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", str(tmp_path))
    kept._make_room.cache_clear()
    own_files._safe.clear()
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


def test_files_exchanged_among_names_count_as_none(folder):
    Kept("one").store(b"code of one")
    Kept("other").store(b"code of the other")
    one, other = (folder / Kept(key).name for key in ("one", "other"))
    kept_apart = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept_apart)
    assert Kept("one").load() is None
    assert Kept("other").load() is None


def test_a_file_with_the_digest_of_its_code_alone_counts_as_none(folder):
    Kept("text").store(b"code")
    (file,) = folder.iterdir()
    file.write_bytes(hashlib.sha256(b"garbage").digest() + b"garbage")
    assert Kept("text").load() is None


@posix
def test_files_that_others_own_or_may_write_count_as_none(folder, monkeypatch):
    Kept("text").store(b"code")
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for mode in (0o620, 0o602, 0o666):
        file.chmod(mode)
        assert Kept("text").load() is None
    file.chmod(0o600)
    assert Kept("text").load() == b"code"
    make_foreign(file, monkeypatch)
    assert Kept("text").load() is None


@posix
def test_a_link_counts_as_none(folder):
    Kept("text").store(b"code")
    (file,) = folder.iterdir()
    elsewhere = folder / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert Kept("text").load() is None


@posix
def test_a_folder_of_somebody_else_is_not_used(folder, monkeypatch):
    Kept("text").store(b"code")
    make_foreign(folder, monkeypatch)
    own_files._safe.clear()
    assert Kept("text").load() is None
    before = sorted(folder.iterdir())
    Kept("more").store(b"code")
    assert sorted(folder.iterdir()) == before


@posix
def test_the_folder_is_closed_to_others_whatever_the_umask(tmp_path, monkeypatch):
    own = tmp_path / "outer" / "own"
    monkeypatch.setenv("PULLBACK_CACHE", str(own))
    before = os.umask(0)
    try:
        Kept("text").store(b"code")
    finally:
        os.umask(before)
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    own.chmod(0o777)  # as older versions made it
    own_files._safe.clear()
    assert Kept("text").load() == b"code"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


@posix
@pytest.mark.parametrize("named", ["", "relative", "./x"])
def test_a_cache_folder_that_is_no_absolute_path_is_ignored(tmp_path, monkeypatch, named):
    monkeypatch.delenv("PULLBACK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Kept("text").folder == str(tmp_path / ".cache" / "pullback")


@posix
def test_an_absolute_cache_folder_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("PULLBACK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Kept("text").folder == str(tmp_path / "pullback")


@posix
@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_nothing_is_kept(tmp_path, monkeypatch, home):
    monkeypatch.delenv("PULLBACK_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    if home is None:

        def unknown(number):
            raise KeyError(number)

        monkeypatch.setattr("pwd.getpwuid", unknown)
    else:
        monkeypatch.setenv("HOME", home)
    monkeypatch.chdir(tmp_path)
    Kept("text").store(b"code")
    assert Kept("text").load() is None
    assert not list(tmp_path.iterdir())


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
