"""The fixture that guards every test can itself fail one."""

import pytest

import pullback
from tests.modes import modes_kept


def test_grad_mode_left_off_is_caught_and_mended():
    with pytest.raises(pytest.fail.Exception, match="grad mode: True -> False"), modes_kept():
        pullback.set_grad_enabled(False)
    assert pullback.is_grad_enabled()


def test_default_dtype_left_changed_is_caught_and_mended():
    before = pullback.get_default_dtype()
    with pytest.raises(pytest.fail.Exception, match="default dtype"), modes_kept():
        pullback.set_default_dtype(pullback.float64)
    assert pullback.get_default_dtype() is before


def test_mode_changed_and_changed_back_is_fine():
    with modes_kept(), pullback.no_grad():
        assert not pullback.is_grad_enabled()
