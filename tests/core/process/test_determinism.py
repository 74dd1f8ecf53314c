"""The wish for deterministic algorithms is remembered, and fills memory that nobody wrote."""

import pytest

import pullback as torch
from pullback.utils import deterministic


@pytest.fixture(autouse=True)
def wish_taken_back():
    yield
    torch.use_deterministic_algorithms(False)
    deterministic.fill_uninitialized_memory = True


@pytest.mark.parametrize(
    ("mode", "enabled", "warns", "number"),
    [
        ("default", False, False, 0),
        ("warn", True, True, 1),
        ("error", True, False, 2),
        *((number, number > 0, number == 1, number) for number in (0, 1, 2)),
    ],
)
def test_modes(mode, enabled, warns, number):
    torch.set_deterministic_debug_mode(mode)
    assert torch.are_deterministic_algorithms_enabled() == enabled
    assert torch.is_deterministic_algorithms_warn_only_enabled() == warns
    assert torch.get_deterministic_debug_mode() == number


def test_fresh_memory_is_filled_on_demand():
    torch.use_deterministic_algorithms(True, warn_only=True)
    x = torch.ones(2)
    for fresh in (
        torch.empty(2),
        torch.empty_like(x),
        x.new_empty(2),
        torch.empty_strided((2,), (3,)),
        torch.empty_permuted((2,), (0,)),
        x.new_empty_strided((2,), (1,)),
        torch.empty(2, dtype=torch.complex64),
    ):
        assert fresh.isnan().all()
    assert torch.empty(1, dtype=torch.int8).item() == 127
    assert torch.empty(1, dtype=torch.bool).item() is True
    assert torch.empty(2, device="meta").is_meta
    deterministic.fill_uninitialized_memory = False
    assert not torch.empty(4).fill_(0).isnan().any()
    assert not deterministic.fill_uninitialized_memory


def test_refusals():
    with pytest.raises(TypeError, match="mode"):
        torch.use_deterministic_algorithms(1)
    with pytest.raises(TypeError, match="warn_only"):
        torch.use_deterministic_algorithms(True, warn_only=1)
    with pytest.raises(RuntimeError, match="'x'"):
        torch.set_deterministic_debug_mode("x")
    with pytest.raises(RuntimeError, match="5"):
        torch.set_deterministic_debug_mode(5)
    with pytest.raises(TypeError, match="float"):
        torch.set_deterministic_debug_mode(1.5)
    with pytest.raises(RuntimeError, match="int"):
        deterministic.fill_uninitialized_memory = 3
