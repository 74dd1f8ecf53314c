"""Memory by strategy: from sizes, as the page shows it, and as fully_shard was measured."""

from pathlib import Path

import pytest

from pullback.distributed.strategies import STRATEGIES, memory_per_rank, table

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"


def test_the_page_has_the_table():
    assert "\n".join(table()) in PAGE.read_text()


def test_sharding_leaves_parts_and_a_few_layers():
    whole = memory_per_rank(24e6, 24, 4, "DDP")
    assert whole == 24e6 * 16
    assert memory_per_rank(24e6, 24, 4, "ZeRO-1") == 24e6 * (8 + 2)
    assert memory_per_rank(24e6, 24, 4, "fully_shard") == 24e6 * 4 + 3 * 4e6
    found = [memory_per_rank(24e6, 24, 4, name) for name in STRATEGIES]
    assert found == sorted(found, reverse=True)
    with pytest.raises(ValueError, match="strategy is one of DDP"):
        memory_per_rank(1, 1, 1, "none")
