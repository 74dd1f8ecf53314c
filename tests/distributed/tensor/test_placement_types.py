"""How placements are shown: as torch shows them."""

import importlib

import pytest

from pullback.distributed.tensor import placement_types as ours

PLACEMENTS = {
    "Shard(dim=1) S(1)": lambda m: m.Shard(1),
    "Replicate() R": lambda m: m.Replicate(),
    "Partial(sum) P(sum)": lambda m: m.Partial(),
    "Partial(avg) P(avg)": lambda m: m.Partial("avg"),
    "_StridedShard(dim=0, sf=2) _S(0, 2)": lambda m: m._StridedShard(0, split_factor=2),
}


@pytest.mark.parametrize("text", PLACEMENTS)
def test_placements_are_shown_in_short_and_in_full(text):
    placement = PLACEMENTS[text](ours)
    assert f"{placement!r} {placement}" == text


@pytest.mark.parametrize("text", PLACEMENTS)
def test_torch_shows_them_so_too(text):
    pytest.importorskip("torch", reason="compares with torch")
    theirs = importlib.import_module("torch.distributed.tensor.placement_types")
    placement = PLACEMENTS[text](theirs)
    assert f"{placement!r} {placement}" == text
