"""Switches of libraries are kept; threads and precision have a say."""

from types import SimpleNamespace

import pytest

import pullback as torch
from pullback.backends import precision, threads


def test_switches_are_kept():
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark is True
    torch.backends.cudnn.benchmark = before
    assert not torch.backends.cudnn.is_available()
    assert torch.backends.cudnn.version() is None


@pytest.mark.parametrize("name", ["cudnn", "mkldnn", "nnpack"])
def test_flags_hold_within_a_block(name):
    module = getattr(torch.backends, name)
    assert module.enabled
    with module.flags(enabled=False):
        assert not module.enabled
    assert module.enabled
    with pytest.raises(TypeError, match="no_such"):
        module.flags(no_such=1)


def test_tf32_is_the_precision_of_products(monkeypatch):
    monkeypatch.setattr(precision, "_chosen", "highest")
    assert not torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("medium")
    assert torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.warns(UserWarning, match="none of highest"):
        torch.set_float32_matmul_precision("low")
    with pytest.raises(AttributeError):
        torch.backends.cuda.matmul.no_such = 1


def test_attention_switches(monkeypatch):
    cuda = torch.backends.cuda
    cuda.enable_flash_sdp(False)
    assert not cuda.flash_sdp_enabled()
    cuda.enable_flash_sdp(True)
    with pytest.warns(FutureWarning), cuda.sdp_kernel(enable_math=False):
        assert not cuda.math_sdp_enabled()
    assert cuda.math_sdp_enabled()
    assert not cuda.is_built()


def test_einsum_strategies_are_checked():
    with pytest.raises(ValueError, match="greedy"):
        torch.backends.opt_einsum.strategy = "fast"
    with torch.backends.opt_einsum.flags(enabled=True, strategy="greedy"):
        assert torch.backends.opt_einsum.strategy == "greedy"
        torch.backends.opt_einsum.strategy = "auto-hq"  # a setting of opt_einsum's own
        assert torch.backends.opt_einsum.strategy == "auto-hq"
    with pytest.raises(ValueError, match="greedy"):
        torch.backends.opt_einsum.set_flags(None, "auto-hq")


def test_there_are_no_quantised_operators():
    assert torch.backends.quantized.engine == "none"
    with pytest.raises(RuntimeError, match="no quantised"):
        torch.backends.quantized.engine = "x86"


def test_numbers_of_threads(monkeypatch):
    monkeypatch.setattr(threads.setting, "count", None)
    monkeypatch.setattr(threads, "_interop", None)
    seen = []
    pools = SimpleNamespace(threadpool_limits=lambda limits: seen.append(limits))
    pools.threadpool_info = lambda: [{"num_threads": 3}]
    monkeypatch.setattr(threads, "_pools", lambda: pools)
    assert torch.get_num_threads() == 3
    torch.set_num_threads(2)
    assert (torch.get_num_threads(), seen) == (2, [2])
    torch.set_num_interop_threads(2)
    assert torch.get_num_interop_threads() == 2
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(RuntimeError, match="thread"):
            torch.set_num_threads(wrong)
    with pytest.raises(RuntimeError, match="already"):
        torch.set_num_interop_threads(3)


def test_without_threadpoolctl_the_environment_decides(monkeypatch):
    monkeypatch.setattr(threads.setting, "count", None)
    monkeypatch.setattr(threads, "_pools", lambda: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert torch.get_num_threads() == 5


def test_accelerators_as_backends():
    assert not torch.backends.mps.is_available()
    assert torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    with pytest.raises(AttributeError):
        torch.backends.no_such
