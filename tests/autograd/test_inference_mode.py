"""Inference mode: what is made inside, what it forbids outside, and normal tensors inside."""

import threading

import pytest

import pullback as torch
from tests.leaves import leaf


def inference_tensor():
    with torch.inference_mode():
        return torch.ones(2)


def test_context_and_decorators():
    """V-180."""
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled()
        assert not torch.is_grad_enabled()
        with torch.inference_mode(False):
            assert not torch.is_inference_mode_enabled()
            assert torch.is_grad_enabled()
        assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()
    assert torch.inference_mode()(torch.is_inference_mode_enabled)()
    assert torch.inference_mode(torch.is_inference_mode_enabled)()
    with torch.no_grad(), torch.inference_mode(False):
        assert torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_mode_is_per_thread():
    """V-180."""
    seen = []
    with torch.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(torch.is_inference_mode_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_forward_mode_is_off_inside():
    """V-180, V-165."""
    fwd = torch.autograd.forward_ad
    with fwd.dual_level():
        d = fwd.make_dual(torch.ones(2), torch.ones(2))
        with torch.inference_mode():
            y = d * 2
        assert fwd.unpack_dual(y).tangent is None


def test_tensors_made_inside_have_no_version_and_no_views():
    """V-181."""
    with torch.inference_mode():
        t = torch.ones(2)
        v = t[:1]
        r = torch.ones(2, requires_grad=True)
        y = r * 2
    assert t.is_inference()
    assert not v._is_view()
    with pytest.raises(RuntimeError):
        t._version
    assert r.requires_grad
    assert not y.requires_grad


def test_what_is_refused_outside():
    """V-182."""
    i = inference_tensor()
    with pytest.raises(RuntimeError, match=r"clone|Clone"):
        i.add_(1)
    with pytest.raises(RuntimeError, match=r"clone|Clone"):
        torch.add(torch.ones(2), 1, out=i)
    with pytest.raises(RuntimeError):
        i.requires_grad = True
    with pytest.raises(RuntimeError):
        i.requires_grad_()
    with pytest.raises(RuntimeError):
        leaf() * i


def test_what_is_allowed_outside():
    """V-182."""
    i = inference_tensor()
    assert (leaf() + i).requires_grad
    a = leaf() * 1
    a.copy_(i)
    assert i.view(2).is_inference()
    assert i.detach().is_inference()
    assert not (i * 2).is_inference()
    assert not i.clone().is_inference()
    assert i.tolist() == [1.0, 1.0]


def test_normal_tensors_inside():
    """V-183."""
    x = leaf()
    y = x * 1
    node = y.grad_fn
    with torch.inference_mode():
        v = x[:1]
        x.add_(1)
        y.mul_(2)
    assert not v.is_inference()
    assert (x._version, y._version) == (1, 1)
    assert y.grad_fn is node
    assert x.tolist() == [2.0, 3.0]


def test_enable_grad_inside_records_nothing():
    """V-184."""
    x = leaf()
    y = (x * 2).sum()
    with torch.inference_mode():
        with torch.enable_grad():
            assert torch.is_grad_enabled()
            assert not (x * 2).requires_grad
        y.backward()
    assert x.grad.tolist() == [2.0, 2.0]
