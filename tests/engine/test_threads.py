"""Re-entrance and threads."""

from __future__ import annotations

import threading

import pytest

import pullback as torch


def test_backward_inside_backward_to_any_depth():
    depth = 0

    @torch.enable_grad()
    def make():
        y = torch.ones(1, requires_grad=True) * 1.0
        y.register_hook(go_deeper)
        return y

    def go_deeper(g):
        nonlocal depth
        depth += 1
        if depth < 500:
            make().backward()

    make().backward()
    assert depth == 500


def test_an_error_crosses_threads_unchanged():
    class SpecialError(Exception):
        pass

    depth = 0

    def go_deeper(g):
        nonlocal depth
        depth += 1
        if depth == 100:
            raise SpecialError("deep")
        with torch.enable_grad():
            y = torch.ones(1, requires_grad=True) * 1.0
            y.register_hook(go_deeper)
        y.backward()

    y = torch.ones(1, requires_grad=True) * 1.0
    y.register_hook(go_deeper)
    with pytest.raises(SpecialError, match="deep"):
        y.backward()
    x = torch.ones(1, requires_grad=True)
    (x * 2).backward()
    assert x.grad.item() == 2.0


def test_grad_mode_of_the_pass_holds_on_the_other_thread():
    seen = []
    depth = 0

    def go_deeper(g):
        nonlocal depth
        depth += 1
        seen.append((torch.is_grad_enabled(), threading.get_ident()))
        if depth < 70:
            with torch.enable_grad():
                y = torch.ones(1, requires_grad=True) * 1.0
                y.register_hook(go_deeper)
            y.backward()

    y = torch.ones(1, requires_grad=True) * 1.0
    y.register_hook(go_deeper)
    y.backward()
    assert {mode for mode, _ in seen} == {False}
    assert len({ident for _, ident in seen}) > 1
