"""Tensors whose memory is a file."""

import pytest

import pullback as torch


def test_what_is_written_to_a_shared_tensor_is_written_to_the_file(tmp_path):
    path = tmp_path / "numbers"
    made = torch.from_file(path, shared=True, size=4)
    assert made.tolist() == [0, 0, 0, 0]
    made.copy_(torch.arange(4.0))
    assert torch.from_file(str(path), size=3).tolist() == [0, 1, 2]
    assert path.stat().st_size == 16


def test_without_sharing_the_file_stays_as_it_is(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(8)))
    made = torch.from_file(path, size=8, dtype=torch.uint8)
    made.fill_(7)
    assert path.read_bytes() == bytes(range(8))
    assert torch.from_file(path).shape == (0,)


def test_missing_and_short_files_are_refused(tmp_path):
    path = tmp_path / "numbers"
    with pytest.raises(RuntimeError, match="there is no file"):
        torch.from_file(path, size=3)
    path.write_bytes(b"1234")
    with pytest.raises(RuntimeError, match="3 elements take 12 bytes"):
        torch.from_file(path, size=3)
