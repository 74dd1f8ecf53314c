"""Files between processes: read only where nobody else may have written them, written whole."""

import contextlib
import os

import pytest

from pullback.core.process import own_files

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are of another kind")


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "outer" / "own")


def test_what_was_written_is_read(folder):
    assert own_files.read(folder, "a") is None
    assert own_files.write(folder, "a", (b"one, ", b"two"))
    assert own_files.read(folder, "a") == b"one, two"


def test_a_folder_that_somebody_else_made_meanwhile_is_found(folder):
    assert own_files.read(folder, "a") is None
    os.makedirs(folder, mode=0o700)
    assert own_files.write(folder, "a", (b"one",))
    assert own_files.read(folder, "a") == b"one"


def test_without_a_folder_nothing_is_kept():
    assert not own_files.write(None, "a", (b"one",))
    assert own_files.read(None, "a") is None


def test_what_fails_halfway_leaves_what_was_there_and_nothing_else(folder):
    own_files.write(folder, "a", (b"one",))

    def parts():
        yield b"two"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        own_files.write(folder, "a", parts())
    assert os.listdir(folder) == ["a"]
    assert own_files.read(folder, "a") == b"one"


def test_of_too_many_files_the_last_used_half_stays(folder):
    for number in range(5):
        own_files.write(folder, f"{number}.x", (b"",))
        os.utime(os.path.join(folder, f"{number}.x"), (number, number))
    own_files.write(folder, "other", (b"",))
    own_files.leave(folder, ".x", 5)
    assert len(os.listdir(folder)) == 6
    own_files.leave(folder, ".x", 4)
    assert sorted(os.listdir(folder)) == ["3.x", "4.x", "other"]


def test_files_are_not_looked_at_where_there_is_room(folder, monkeypatch):
    class Listed:
        name = "1.x"

        def stat(self):
            raise AssertionError("thousands of such looks are a tenth of a first call")

    @contextlib.contextmanager
    def listing(_):
        yield [Listed()] * 5

    monkeypatch.setattr(own_files.os, "scandir", listing)
    own_files.leave(folder, ".x", 5)
    with pytest.raises(AssertionError):
        own_files.leave(folder, ".x", 4)


@posix
def test_a_file_that_others_may_write_counts_as_none(folder):
    own_files.write(folder, "a", (b"one",))
    for mode in (0o620, 0o602):
        os.chmod(os.path.join(folder, "a"), mode)
        assert own_files.read(folder, "a") is None
