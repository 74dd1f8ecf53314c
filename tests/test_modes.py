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


def test_an_observer_left_looking_is_caught_and_taken_off():
    from pullback.operators.dispatch.observers import observe, observers

    class Nobody:
        def enter(self, op, called):
            return None

        def leave(self, token, result, operands):
            return None

    with pytest.raises(pytest.fail.Exception, match="observers"), modes_kept():
        observe(Nobody())
    assert observers.active is None


def test_saved_tensor_hooks_left_on_are_caught_and_taken_off():
    from pullback.core.mode import get_mode

    hooks = pullback.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with pytest.raises(pytest.fail.Exception, match="saved-tensor hooks"), modes_kept():
        hooks.__enter__()
    assert get_mode().saved_hooks == ()


def test_a_thread_left_running_is_caught():
    import threading

    goes_on = threading.Event()
    thread = threading.Thread(target=goes_on.wait, name="forgotten")
    with pytest.raises(pytest.fail.Exception, match="thread forgotten"), modes_kept():
        thread.start()
    goes_on.set()
    thread.join()
