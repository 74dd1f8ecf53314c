"""Function transforms in many threads at once: each thread's derivatives are its own."""

import sys
import threading

import pytest

import pullback as torch
from pullback.autograd import forward_ad
from pullback.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap


def f(x):
    return (x * x.sin()).sum() * x.exp().mean()


X = torch.linspace(0.1, 1.0, 4, dtype=torch.float64)
V = torch.linspace(1.0, 2.0, 4, dtype=torch.float64)
BATCH = torch.stack([X, V])

PROGRAMS = {
    "jvp": lambda: jvp(f, (X,), (V,))[1],
    "jvp of jvp": lambda: jvp(lambda x: jvp(f, (x,), (V,))[1], (X,), (V,))[1],
    "hessian": lambda: hessian(f)(X),
    "jacfwd": lambda: jacfwd(lambda x: x * x.sum())(X),
    "jacrev of jacfwd": lambda: jacrev(jacfwd(f))(X),
    "grad of grad": lambda: grad(lambda x: grad(f)(x).sum())(X),
    "vmap of grad": lambda: vmap(grad(f))(BATCH),
    "vmap of jvp": lambda: vmap(lambda x: jvp(f, (x,), (V,))[1])(BATCH),
    "vjp": lambda: vjp(f, X)[1](torch.tensor(2.0, dtype=torch.float64))[0],
    "linearize": lambda: linearize(f, X)[1](V),
}


def in_threads(count, work):
    """Run `work(number)` in threads that switch every 10 us; what went wrong."""
    failures, interval = [], sys.getswitchinterval()
    start = threading.Barrier(count)

    def run(number):
        start.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return failures


def test_transforms_are_exact_in_eight_threads():
    names = list(PROGRAMS)
    expected = {name: PROGRAMS[name]().tolist() for name in names}

    def work(number):
        for step in range(3 * len(names)):
            name = names[(number + step) % len(names)]
            assert PROGRAMS[name]().tolist() == expected[name], name

    assert in_threads(8, work) == []


def test_a_perturbation_is_seen_by_its_own_thread_alone():
    inside, leave = threading.Event(), threading.Event()
    seen = []

    def held(x):
        inside.set()
        leave.wait(10)
        return x * x

    def other():
        inside.wait(10)
        seen.append(jvp(lambda x: x * 3, (X,), (V,))[1].tolist())
        seen.append(torch.is_grad_enabled())
        leave.set()

    thread = threading.Thread(target=other)
    thread.start()
    result = jvp(held, (X,), (V,))[1]
    thread.join()
    assert seen == [(V * 3).tolist(), True]
    assert result.tolist() == (2 * X * V).tolist()


def test_a_dual_level_is_seen_by_all_threads():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, V)
        got = []
        thread = threading.Thread(
            target=lambda: got.append(forward_ad.unpack_dual(dual * 3).tangent.tolist())
        )
        thread.start()
        thread.join()
    assert got == [(V * 3).tolist()]


def test_jvp_of_an_inference_tensor_is_its_derivative():
    with torch.inference_mode():
        x = torch.ones(2)
    assert jvp(torch.sin, (x,), (x,))[1].tolist() == pytest.approx([0.5403023] * 2)
    assert jvp(lambda t: t * t, (x,), (torch.ones(2),))[1].tolist() == [2, 2]
    assert not torch.ones(2, requires_grad=True).detach().requires_grad
