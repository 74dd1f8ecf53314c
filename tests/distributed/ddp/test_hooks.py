"""Communication hooks: what they are given, what becomes of their results, and the ready-made."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from pullback.futures import Future
from pullback.nn.parallel import DistributedDataParallel as DDP


def gradients(register, steps=1, size=4, **options):
    def one():
        model = torch.nn.Linear(size, size)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).sin().view_as(parameter))
        parallel = DDP(model, **options)
        register(parallel)
        for step in range(steps):
            parallel.zero_grad()
            generator = torch.Generator().manual_seed(7 * step + dist.get_rank())
            x = torch.randn(3, size, generator=generator)
            parallel(x).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    return dist.threads.run(one, 2)


def expected(**options):
    return gradients(lambda parallel: None, **options)[0]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(
    ("hook", "tolerance"),
    [
        (default_hooks.allreduce_hook, 1e-6),
        (default_hooks.fp16_compress_hook, 2e-3),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 2e-3),
    ],
)
def test_ready_made_hooks_average(hook, tolerance, overlap):
    """B-33."""
    first, second = gradients(lambda p: p.register_comm_hook(None, hook), overlap=overlap)
    for a, b, want in zip(first, second, expected(), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
        torch.testing.assert_close(a, want, rtol=tolerance, atol=tolerance)


def test_bfloat16_hook_averages():
    pytest.importorskip("ml_dtypes", reason="bfloat16 comes from ml_dtypes: pullback[full]")
    hook = default_hooks.bf16_compress_hook
    first, second = gradients(lambda p: p.register_comm_hook(None, hook))
    for a, b, want in zip(first, second, expected(), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
        torch.testing.assert_close(a, want, rtol=2e-2, atol=2e-2)


def test_a_hooks_result_replaces_the_bucket_as_it_is():
    """B-32."""
    seen = []

    def hook(state, bucket):
        if dist.get_rank() == 0:
            seen.append((state, bucket.index(), bucket.is_last(), bucket.buffer().numel()))
            seen.append([tuple(g.shape) for g in bucket.gradients()])
            seen.append([tuple(p.shape) for p in bucket.parameters()])
        done = Future()
        done.set_result(torch.full_like(bucket.buffer(), 7.0))
        return done

    first, _ = gradients(lambda p: p.register_comm_hook("state", hook))
    assert first[0].tolist() == [[7.0] * 4] * 4
    assert seen == [("state", 0, True, 20), [(4,), (4, 4)], [(4,), (4, 4)]]


def test_wrong_hooks_are_refused():
    """B-32."""

    def wrong_bucket(state, bucket: int):
        return None

    def wrong_return(state, bucket) -> int:
        return 1

    def register(parallel):
        with pytest.raises(TypeError, match="the hook is called"):
            parallel.register_comm_hook(None, 3)
        with pytest.raises(ValueError, match="called `bucket`"):
            parallel.register_comm_hook(None, lambda state, other: None)
        with pytest.raises(ValueError, match="is a GradBucket"):
            parallel.register_comm_hook(None, wrong_bucket)
        with pytest.raises(ValueError, match="returns a Future"):
            parallel.register_comm_hook(None, wrong_return)
        parallel.register_comm_hook(None, default_hooks.allreduce_hook)
        with pytest.raises(RuntimeError, match="registered already"):
            parallel.register_comm_hook(None, default_hooks.allreduce_hook)

    gradients(register)


@pytest.mark.parametrize("epsilon", [0, 1e-8])
def test_power_sgd_is_exact_for_gradients_of_its_rank(epsilon):
    """Three examples on each of two ranks: the mean gradient has rank 6."""

    def register(parallel):
        state = powerSGD_hook.PowerSGDState(
            None,
            6,
            start_powerSGD_iter=2,
            min_compression_rate=1,
            orthogonalization_epsilon=epsilon,
        )
        parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

    first, second = gradients(register, steps=3, size=32)
    for a, b, want in zip(first, second, expected(steps=3, size=32), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
        torch.testing.assert_close(a, want, rtol=1e-3, atol=1e-4)


def test_power_sgd_with_few_columns_keeps_its_error_for_the_next_step():
    states = {}

    def register(parallel):
        state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2)
        states[dist.get_rank()] = state
        parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

    gradients(register, steps=3, size=32)
    error = states[0].errors[0]
    assert states[0].iter == 3
    assert abs(error).max() > 0
    assert abs(error[:32]).max() == 0  # the bias travelled whole
    with pytest.raises(ValueError, match="start_powerSGD_iter is 2 or more"):
        powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=1)
