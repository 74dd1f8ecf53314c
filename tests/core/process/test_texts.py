"""What texts were compiled to, from process to process: the same, or made anew."""

import os
import random
import subprocess
import sys
import threading

import pytest

from pullback.core.process import texts
from pullback.core.process.texts import Texts

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are of another kind")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", str(tmp_path))
    # What is kept at the end of the process is kept when a test says so.
    monkeypatch.setattr(texts.atexit, "register", lambda call: None)
    return tmp_path


def kept(*names):
    """Another process: what it made of texts is on disk."""
    process = Texts()
    for name in names:
        process.compiled(f"x = {name!r}", name)
    process.store()


def value(process, name):
    """What a text says, compiled or found."""
    code = process.compiled(f"x = {name!r}", name)
    assert code.co_filename == name
    scope = {}
    exec(code, scope)
    return scope["x"]


def found(*names):
    """Which of the texts another process knows; all of them say what they should."""
    process = Texts()
    assert [value(process, name) for name in names] == [*names]
    return [name for name in names if key_of(name) in process._used]


def key_of(name):
    process = Texts()
    process.compiled(f"x = {name!r}", name)
    return next(iter(process._used or process._new), None)


def file_in(folder):
    (file,) = folder.iterdir()
    return file


def test_another_process_need_not_compile_again(monkeypatch):
    text = "def f(x):\n    return [y + 1 for y in x], 'one', 2.5, (None, ...), 1j, 2**80\n"
    process = Texts()
    code = process.compiled(text, "somewhere")
    process.store()
    monkeypatch.setattr(texts, "compile", None, raising=False)
    again = Texts().compiled(text, "somewhere")
    assert again == code
    assert [*again.co_consts[0].co_positions()] == [*code.co_consts[0].co_positions()]
    scope = {}
    exec(again, scope)
    assert scope["f"]([1]) == ([2], "one", 2.5, (None, ...), 1j, 2**80)


def test_texts_and_files_are_told_apart():
    process = Texts()
    for text, file in [("x", "a y"), ("y x", "a"), ("x", "a"), ("y", "a")]:
        process.compiled(text.replace(" ", ";"), file)
    assert len(process._new) == 4


def test_nothing_is_written_where_nothing_is_new(folder):
    kept("a")
    before = file_in(folder).stat().st_ino
    kept("a")
    assert file_in(folder).stat().st_ino == before


def test_processes_at_once_lose_none_that_ended_before():
    one, other = Texts(), Texts()
    value(one, "a")
    value(other, "b")
    one.store()
    other.store()
    assert found("a", "b", "c") == ["a", "b"]


def test_every_cut_and_every_flipped_byte_gives_what_was_kept_or_is_made_anew(folder):
    kept("a", "b")
    file = file_in(folder)
    whole = file.read_bytes()
    cut = [whole[:stop] for stop in range(len(whole))]
    flipped = [
        whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]
        for place in range(len(whole))
    ]
    for content in [*cut, *flipped, random.Random(0).randbytes(500), b"\xff" * 500]:
        file.write_bytes(content)
        process = Texts()
        assert [value(process, "a"), value(process, "b")] == ["a", "b"]
        process.store()
        process = Texts()
        assert [value(process, "a"), value(process, "b")] == ["a", "b"]
        assert len(process._used) == 2  # spoiled ones were replaced


def test_records_exchanged_among_texts_count_as_none(folder):
    kept("a")
    of_a = file_in(folder).read_bytes()
    file_in(folder).unlink()
    kept("b")
    key_of_b = file_in(folder).read_bytes()[:32]
    file_in(folder).write_bytes(key_of_b + of_a[32:])
    assert not found("b")


def test_what_is_no_code_counts_as_none(folder):
    key, result = key_of("a"), texts.marshal.dumps("text")
    digest = texts.hashlib.sha256(key + result).digest()
    kept("a")
    file_in(folder).write_bytes(texts._HEAD.pack(key, digest, len(result)) + result)
    assert not found("a")


@posix
def test_files_of_others_and_links_count_as_none(folder):
    kept("a")
    file = file_in(folder)
    for mode in (0o620, 0o602, 0o666):
        file.chmod(mode)
        assert not found("a")
    file.chmod(0o600)
    assert found("a")
    elsewhere = folder / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert not found("a")


@pytest.mark.parametrize("nowhere", ["0", "", "/dev/null/folder"])
def test_where_nothing_can_be_kept_nothing_is(monkeypatch, folder, nowhere):
    monkeypatch.setenv("PULLBACK_CACHE", nowhere)
    kept("a")
    assert not found("a")
    assert not list(folder.iterdir())


def test_another_python_or_version_has_a_file_of_its_own(monkeypatch, folder):
    kept("a")
    maker = texts._maker().copy()
    maker.update(b"another")
    monkeypatch.setattr(texts, "_maker", lambda: maker)
    assert not found("a")
    kept("a")
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("flags", [["-O"], ["-OO"], ["-X", "no_debug_ranges"]])
def test_flags_that_change_what_is_compiled_are_told_apart(flags):
    asked = "from pullback.core.process.texts import _maker; print(_maker().hexdigest())"

    def told(*flags):
        run = [sys.executable, *flags, "-c", asked]
        return subprocess.run(run, capture_output=True, check=True, text=True).stdout

    assert told(*flags) == told(*flags) != told()


def test_new_texts_and_used_ones_stay_where_there_is_no_room_for_all(monkeypatch):
    process = Texts()
    value(process, "a")
    size = sum(map(len, process._new.values()))
    monkeypatch.setattr(texts, "MOST", 3 * size)
    kept("a", "b")
    kept("a", "c")
    assert found("a", "b", "c") == ["a", "b", "c"]
    kept("b", "d")
    assert found("b", "d") == ["b", "d"]
    assert len(found("a", "c")) == 1
    process = Texts()
    for number in range(9):  # a program that writes texts for ever
        value(process, str(number))
    assert len(process._new) == 3


def test_a_forked_child_leaves_to_its_parent_what_its_parent_made():
    process = Texts()
    value(process, "a")
    process.forget_new()
    process.store()
    assert not found("a")


def test_threads_get_what_belongs_to_their_texts():
    names = [f"t{n}" for n in range(100)]
    kept(*names[:50])
    process, got = Texts(), []
    start = threading.Barrier(4)

    def use():
        start.wait()
        got.append([value(process, name) for name in names])

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [names] * 4


_STEP = """
import builtins, sys, traceback
own, plain = [], builtins.compile

def counted(text, file, *args, **kwargs):
    if isinstance(file, str) and file.startswith("<pullback "):
        own.append(file)
    return plain(text, file, *args, **kwargs)

builtins.compile = counted
import pullback as torch

net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
torch.optim.SGD(net.parameters()).step()
net(torch.ones(2, 3)).square().mean().backward()
from pullback.core.writer import define
try:
    define(["def fails(x):", "    y = x", "    return y.nothing"], {}, "shown")(1)
except AttributeError:
    print(traceback.format_exc().splitlines()[-2].strip(), len(own))
"""


def test_a_second_process_compiles_no_text_and_shows_the_same_lines():
    def run():
        made = [sys.executable, "-c", _STEP]
        return subprocess.run(made, capture_output=True, check=True, text=True).stdout.rsplit(
            " ", 1
        )

    shown, compiled = run()
    assert int(compiled) > 20
    shown_again, compiled_again = run()
    assert shown_again == shown
    assert int(compiled_again) == 0
