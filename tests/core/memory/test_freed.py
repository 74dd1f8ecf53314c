"""Memory that is given back while tensors look at it."""

import gc
import sys
from pathlib import Path

import pytest

import pullback as torch
from pullback.core.memory import freed

MEGABYTE = 1 << 20


def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux what is in memory")
def test_pages_go_back_to_the_system_and_come_again():
    x = torch.ones(64 * MEGABYTE // 4)
    part = x[1000:]
    before = resident()
    x.untyped_storage().resize_(0)
    assert before - resident() > 60 * MEGABYTE
    x.untyped_storage().resize_(64 * MEGABYTE)
    x.fill_(2.0)
    assert resident() > before - 4 * MEGABYTE
    assert part[-1] == 2


def test_small_memory_is_noted_alone():
    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    x.untyped_storage().resize_(12)
    assert x.untyped_storage().nbytes() == 12


def test_notes_go_with_their_memory():
    known = len(freed._freed)
    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    assert len(freed._freed) == known + 1
    del x
    gc.collect()
    assert len(freed._freed) == known


def test_more_than_before_is_other_memory():
    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(24)
    assert x.untyped_storage().nbytes() == 24
    assert x.fill_(1.0).tolist() == [1, 1, 1]
