"""A place in the stream can be told, and gone back to, from wherever the stream is by then."""

import pytest

import pullback


@pytest.mark.parametrize("before", [0, 3, 600, 2000])
@pytest.mark.parametrize("after", [0, 5, 700])
def test_a_state_is_found_again_within_its_block_and_beyond(before, after):
    generator = pullback.Generator().manual_seed(7)
    pullback.rand(before, generator=generator)
    state = generator.get_state()
    pullback.rand(after, generator=generator)
    other = pullback.Generator()
    for one in (generator, other):
        one.set_state(state)
        assert pullback.equal(one.get_state(), state)
    drawn = pullback.rand(1300, generator=generator)
    assert pullback.equal(drawn, pullback.rand(1300, generator=other))
