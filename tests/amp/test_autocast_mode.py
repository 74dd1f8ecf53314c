"""Autocast regions: what is cast, how they nest, what is cast once, what is left as it is."""

import sys
import threading

import pytest

import pullback as torch
from pullback.core import autocast as settings
from pullback.core.dtype import DTYPES
from pullback.core.mode import PLAIN, get_mode
from pullback.nn import functional as F  # noqa: N812 (as users call it)
from pullback.operators.dispatch import intercept

HALF = torch.float16


def region(**options):
    return torch.autocast("cpu", dtype=HALF, **options)


def test_products_are_narrow_and_losses_wide():
    x = torch.ones(2, 2)
    with region():
        assert (x @ x).dtype is HALF
        assert F.linear(x, x).dtype is HALF
        assert F.mse_loss(x.half(), x.half()).dtype is torch.float32
        assert x.half().prod().dtype is torch.float32
        assert (x + 1).dtype is torch.float32
        assert (x.double() @ x.double()).dtype is torch.float64
    assert (x @ x).dtype is torch.float32


def test_bfloat16_is_the_cpus_own():
    pytest.importorskip("ml_dtypes")
    x = torch.ones(2, 2)
    with torch.autocast("cpu"):
        assert (x @ x).dtype is torch.bfloat16
        assert torch.get_autocast_dtype("cpu") is torch.bfloat16


def test_without_ml_dtypes_there_is_float16_and_a_region_that_is_off(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.delitem(DTYPES, "bfloat16", raising=False)
    x = torch.ones(2, 2)
    with region():
        assert (x @ x).dtype is HALF
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype is torch.float32
    with torch.autocast("cpu", enabled=False):
        assert (x @ x).dtype is torch.float32
    with pytest.raises(ImportError, match=r"bfloat16 needs .* install ml_dtypes"):
        torch.autocast("cpu")


def test_regions_nest_and_make_exceptions():
    x = torch.ones(2, 2)
    with region():
        with region(enabled=False):
            assert not torch.is_autocast_enabled("cpu")
            assert (x @ x).dtype is torch.float32
        assert (x @ x).dtype is HALF
    assert not torch.is_autocast_enabled("cpu")
    again = region()
    with again, again:
        assert (x @ x).dtype is HALF
    assert get_mode() is PLAIN


def test_a_region_ends_with_an_error_too():
    with pytest.raises(KeyError), region():
        raise KeyError
    assert get_mode() is PLAIN
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32


def test_decorators():
    @region()
    def product(x):
        """Words."""
        return x @ x

    assert product(torch.ones(2, 2)).dtype is HALF
    assert (product.__name__, product.__doc__) == ("product", "Words.")


def test_parameters_are_cast_once_per_region():
    w = torch.ones(2, 2, requires_grad=True)
    with region():
        first, second = w @ w, w @ w
        assert first.grad_fn.next_functions[0][0] is second.grad_fn.next_functions[0][0]
        with torch.no_grad():  # has a cast of its own
            assert (w @ w).grad_fn is None
        third = w @ w
    with region():
        other = w @ w
    assert third.grad_fn.next_functions[0][0] is first.grad_fn.next_functions[0][0]
    assert other.grad_fn.next_functions[0][0] is not first.grad_fn.next_functions[0][0]
    (first.sum() + second.sum()).backward()
    assert w.grad.dtype is torch.float32
    assert w.grad.tolist() == [[8, 8], [8, 8]]


def test_without_a_cache_each_product_casts():
    w = torch.ones(2, 2, requires_grad=True)
    with region(cache_enabled=False):
        assert not torch.is_autocast_cache_enabled()
        first, second = w @ w, w @ w
    assert first.grad_fn.next_functions[0][0] is not second.grad_fn.next_functions[0][0]


def test_in_place_and_out_forms_are_left_alone():
    x = torch.ones(2, 2)
    with region():
        assert torch.mm(x, x, out=torch.empty(2, 2)).dtype is torch.float32
        assert x.clone().addmm_(x, x).dtype is torch.float32


def test_other_threads_are_not_concerned():
    seen = []

    def look():
        x = torch.ones(2, 2)
        seen.append((torch.is_autocast_enabled("cpu"), (x @ x).dtype))

    with region():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(False, torch.float32)]


def test_compositions_are_cast_only_while_a_region_is_open():
    x = torch.ones(2, dtype=torch.bfloat16)
    with region():
        assert F.mse_loss(x, x).dtype is torch.float32
    assert F.mse_loss(x, x).dtype is torch.bfloat16
    assert F.mse_loss in intercept.castings


def test_transforms_inside_a_region():
    x, w = torch.ones(3, 2), torch.ones(2, 2)
    with region():
        assert torch.vmap(lambda row: w @ row)(x).dtype is HALF
        g = torch.func.grad(lambda w: (x @ w).float().sum())(w)
        assert g.dtype is torch.float32
    assert g.tolist() == [[3, 3], [3, 3]]


def test_checkpoints_run_again_as_they_ran():
    from pullback.utils.checkpoint import checkpoint

    seen = []

    def part(x):
        seen.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
        return (x @ x).float().sum()

    x = torch.ones(2, 2, requires_grad=True)
    with region():
        loss = checkpoint(part, x, use_reentrant=False)
    loss.backward()
    assert seen == [(True, HALF), (True, HALF)]
    assert x.grad.tolist() == [[4, 4], [4, 4]]


def test_settings_one_by_one():
    x = torch.ones(2, 2)
    torch.set_autocast_dtype("cpu", HALF)
    assert get_mode().autocast is None  # nothing is cast, so nothing is paid
    torch.set_autocast_enabled("cpu", True)
    try:
        assert torch.is_autocast_enabled("cpu")
        assert (x @ x).dtype is HALF
        assert F.mse_loss(x.half(), x.half()).dtype is torch.float32
    finally:
        torch.set_autocast_enabled("cpu", False)
        settings.change(dtypes={})
    assert (torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()) == (1, 0)
    with pytest.warns(DeprecationWarning, match="old form"):
        assert not torch.is_autocast_cpu_enabled()
    with pytest.warns(DeprecationWarning, match="old form"):
        assert torch.get_autocast_gpu_dtype() is HALF


def test_what_cannot_be_is_off_with_a_warning():
    with pytest.warns(UserWarning, match="bfloat16 or float16"):
        assert not torch.autocast("cpu", dtype=torch.float32)._enabled
    with pytest.warns(UserWarning, match="no CUDA"):
        assert not torch.autocast("cuda")._enabled
    with pytest.warns(FutureWarning), pytest.warns(UserWarning, match="no CUDA"):
        torch.cuda.amp.autocast()
    for wrong, error in ((3, ValueError), ("nope", RuntimeError), ("meta", RuntimeError)):
        with pytest.raises(error):
            torch.autocast(wrong)


@pytest.mark.parametrize("cast", [None, torch.float32])
def test_custom_functions_remember_their_region(cast):
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=cast)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append(torch.is_autocast_enabled("cpu"))
            return g * 2

    x = torch.ones(2, requires_grad=True)
    with region():
        y = Double.apply(x.half())
    y.sum().backward()
    inside = cast is None
    assert seen == [(HALF if inside else torch.float32, inside), inside]
    assert x.grad.tolist() == [2, 2]


def test_modules_train_in_a_region():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 3)
    )
    x, y = torch.randn(8, 1, 6, 6), torch.randint(3, (8,))
    losses = []
    for _ in range(20):
        net.zero_grad()
        with region():
            out = net(x)
            loss = F.cross_entropy(out, y)
        assert (out.dtype, loss.dtype) == (HALF, torch.float32)
        loss.backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
