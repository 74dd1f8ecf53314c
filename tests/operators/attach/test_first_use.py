"""First use is atomic: threads, interrupts and forks in the middle of it do no harm.

Each test is a fresh process, since here everything has been used before.
"""

import os
import subprocess
import sys
import textwrap

import pytest


def run(program, timeout=120):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def test_eight_threads_use_families_for_the_first_time():
    program = """
        import sys, threading
        import pullback as torch
        sys.setswitchinterval(1e-6)
        start = threading.Barrier(8)
        failed = []
        def work():
            start.wait()
            try:
                x = torch.tensor([0.5, 1.5], requires_grad=True)
                y = x.exp() + x.sin() * torch.special.erf(x) + x.softmax(0).lgamma()
                z = y.mul_(2).cumsum(0).outer(x).max() + x.norm() + torch.linalg.det(x.diag())
                z.backward()
                x.grad.sort()[0].tolist()
            except BaseException as error:
                failed.append(repr(error))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(len(failed), *failed[:1])
    """
    for _ in range(3):
        assert run(program)[0] == "0"


def test_a_failure_at_any_step_of_a_first_use_leaves_it_to_the_next():
    program = """
        import sys
        import pullback as torch
        from pullback.operators.attach import names

        def failing(number, error, use):
            seen = [0]
            def lines(frame, event, arg):
                if event == "line":
                    seen[0] += 1
                    if seen[0] == number:
                        raise error
                return lines
            def calls(frame, event, arg):
                inside = "/pullback/" in frame.f_code.co_filename
                return lines if inside and frame.f_code.co_name != "<module>" else None
            sys.settrace(calls)
            try:
                use()
            except error:
                pass
            finally:
                sys.settrace(None)

        x = torch.tensor([[0.5, 1.5], [2.0, 0.25]], requires_grad=True)
        uses = {
            "exp": lambda: x.exp(), "sin": lambda: torch.sin(x), "lgamma": lambda: x.lgamma(),
            "softmax": lambda: x.softmax(0), "cumsum": lambda: x.cumsum(0), "det": lambda: x.det(),
            "max": lambda: x.max(), "norm": lambda: x.norm(), "sort": lambda: x.sort()[0],
            "sqrt_": lambda: (x * 1).sqrt_(), "neg": lambda: -x, "sub": lambda: 3 - x,
            "erf": lambda: torch.special.erf(x), "where": lambda: x.where(x > 0, x),
            "var": lambda: x.var(), "outer": lambda: x[0].outer(x[1]), "prod": lambda: x.prod(),
        }
        number = 0
        for step, (name, use) in enumerate(uses.items()):
            for number in (1, 3, 7, 2 + step, 20 + 3 * step, 60 + 5 * step, 150 + 11 * step):
                failing(number, KeyboardInterrupt if number % 2 else MemoryError, use)
            made = use()
            (grad,) = torch.autograd.grad(made.sum(), x)
            again, = torch.autograd.grad(use().sum(), x)
            assert grad.tolist() == again.tolist(), name
        print("works")
    """
    assert run(program) == ["works"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_a_family_loads_waits_for_it():
    program = """
        import os, sys, threading, warnings
        warnings.simplefilter("ignore")
        import pullback as torch
        from pullback.operators.attach import methods, names
        families = list(names.FUNCTIONS)
        def load():
            for family in families:
                methods.load(family)
        thread = threading.Thread(target=load)
        thread.start()
        for _ in range(6):
            child = os.fork()
            if child == 0:
                import signal
                signal.alarm(20)
                torch.ones(2).lgamma().exp().softmax(0).sum().item()
                methods.load(families[-1])
                os._exit(0)
            _, status = os.waitpid(child, 0)
            assert status == 0, status
        thread.join()
        print("works")
    """
    assert run(program) == ["works"]


def test_importing_families_never_waits_for_the_lock():
    """Or a thread that loads a family and one that imports it could wait for each other."""
    program = """
        import importlib, sys
        import pullback
        from pullback.core.process import first_use
        from pullback.operators.attach import methods, names
        taken = []
        class Lock:
            def __enter__(self):
                taken.append(1)
            def __exit__(self, *error):
                pass
        first_use.first_use = Lock()
        for family in names.FUNCTIONS:
            importlib.import_module(f"pullback.operators.{family}")
        print(len(taken))
    """
    assert run(program) == ["0"]
