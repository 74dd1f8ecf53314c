"""Files in the format before torch 1.6."""

import io
import pickle
import struct

import pytest

import pullback as torch
from pullback.serialization import legacy


def saved(obj):
    file = io.BytesIO()
    torch.save(obj, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


@pytest.mark.parametrize("weights_only", [True, False])
def test_what_is_written_is_read(weights_only):
    x = torch.arange(6.0)
    obj = {"base": x, "view": x[2:], "n": torch.ones(2, dtype=torch.uint16), "t": (1, "a")}
    made = torch.load(io.BytesIO(saved(obj)), weights_only=weights_only)
    made["base"][3] = 9
    assert made["view"].tolist() == [2, 9, 4, 5]
    assert made["n"].tolist() == [1, 1]
    assert made["t"] == (1, "a")


def test_a_file_may_begin_anywhere():
    for new in (True, False):
        file = io.BytesIO()
        file.write(b"before")
        torch.save(torch.ones(2), file, _use_new_zipfile_serialization=new)
        file.seek(6)
        assert torch.load(file).tolist() == [1, 1]


def test_the_other_byte_order_is_swapped():
    whole = saved(torch.tensor([1.0, 2.0]))
    machine = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    header = [legacy.MAGIC_NUMBER, legacy.PROTOCOL_VERSION, machine]
    file = io.BytesIO(whole)
    for _ in header:
        pickle.load(file)
    rest = file.read()[: -(8 + 8)] + struct.pack("<q2f", 2, 1, 2)
    little = b"".join(pickle.dumps(part, 2) for part in header) + rest
    assert torch.load(io.BytesIO(little)).tolist() == [1, 2]
    machine["little_endian"] = False
    big = b"".join(pickle.dumps(part, 2) for part in header) + rest[:-8] + struct.pack(">2f", 1, 2)
    assert torch.load(io.BytesIO(big)).tolist() == [1, 2]


def test_a_count_that_the_file_does_not_have_is_refused_before_memory_is_taken():
    whole = saved(torch.ones(2))
    claimed = whole.replace(b"K\x02Nt", b"J" + struct.pack("<i", 10**9) + b"Nt", 1)
    assert claimed != whole
    with pytest.raises(pickle.UnpicklingError, match="claim"):
        torch.load(io.BytesIO(claimed))


@pytest.mark.parametrize("cut", [1, 4, 12, 17, 40, 100])
def test_a_file_that_ends_early_is_refused(cut):
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        torch.load(io.BytesIO(saved(torch.ones(2))[:-cut]))


def with_part(start, count):
    """Two elements on a part of a storage of four, as files before torch 0.4 have it."""
    whole = saved(torch.arange(4.0)[:2])
    part = b"X\x04\0\0\0part" + bytes([*b"K", start, *b"K", count]) + b"\x87"
    assert whole.count(b"K\x04Nt") == 1
    return io.BytesIO(whole.replace(b"K\x04Nt", b"K\x04" + part + b"t"))


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_storage_may_be_part_of_another(weights_only):
    made = torch.load(with_part(1, 2), weights_only=weights_only)
    assert made.tolist() == [1, 2]
    assert torch.load(with_part(2, 2), map_location="meta").shape == (2,)


@pytest.mark.parametrize("part", [(1, 1), (3, 2), (0, 200)])
def test_a_part_that_reaches_beyond_is_refused(part):
    with pytest.raises(pickle.UnpicklingError, match="beyond"):
        torch.load(with_part(*part))
