"""What runs, or can be asked, when an object is let go: programs would keep it otherwise."""

import gc
import weakref

import pytest

import pullback as torch

log = []


def _numbers():
    try:
        yield 1.0
        yield 2.0
    finally:
        log.append(1)


class _Noted:
    def __del__(self):
        log.append(1)


class _Object:
    pass


def left_by_break():
    total = 0.0
    for value in _numbers():
        total += value
        break
    return total


def left_by_next():
    return next(_numbers())


def closed():
    walk = _numbers()
    value = next(walk)
    walk.close()
    return value


def thrown_into():
    walk = _numbers()
    value = next(walk)
    try:
        walk.throw(ValueError("away"))
    except ValueError:
        value += 7
    return value


def deleted():
    def inner():
        try:
            yield 3.0
        except GeneratorExit:
            log.append(5)

    walk = inner()
    value = next(walk)
    del walk
    return value


def zipped():
    return next(zip(_numbers(), _numbers(), strict=True))[0]


def any_of_them():
    return float(any(one == 1.0 for one in _numbers()))


def left_behind_a_print():
    walk = _numbers()
    value = next(walk)
    print(end="")
    del walk
    return value


def with_a_finalizer():
    noted = _Noted()
    del noted
    return 1.0


weakref.finalize(_Object(), list)  # its first use in a process is written down by C, with a break


def with_a_callback():
    one = _Object()
    weakref.finalize(one, log.append, 3)
    del one
    return 1.0


def asked_whether_it_lives():
    one = _Object()
    reference = weakref.ref(one)
    del one
    return 2.0 if reference() is None else 3.0


def asked_by_a_proxy():
    one = _Object()
    one.value = 2.0
    proxy = weakref.proxy(one)
    del one
    try:
        return proxy.value
    except ReferenceError:
        return 5.0


CASES = [
    left_by_break, left_by_next, closed, thrown_into, deleted, zipped, any_of_them,
    left_behind_a_print, with_a_finalizer, with_a_callback, asked_whether_it_lives,
    asked_by_a_proxy,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*run eagerly")
@pytest.mark.parametrize("case", CASES, ids=lambda one: one.__name__)
def test_objects_are_let_go_as_by_python(case):
    def step(x):
        return x * case() + len(log)

    def seen(wrap):
        log.clear()
        run = wrap(step)
        return [run(torch.ones(2)).tolist() for _ in range(4)]

    assert seen(lambda run: torch.compile(run, backend="python")) == seen(lambda run: run)


def test_a_small_capture_leaves_the_collector_alone(monkeypatch):
    def asked():
        raise AssertionError("frozen objects were counted, which takes as long as they are many")

    monkeypatch.setattr(gc, "get_freeze_count", asked)
    gc.collect()
    compiled = torch.compile(lambda x: x.sin() * 2)
    assert compiled(torch.zeros(3)).tolist() == [0, 0, 0]
    assert gc.isenabled()


def test_a_large_capture_leaves_what_is_frozen_where_it_is():
    def chain(x):
        for _ in range(3000):
            x = x.sin() * 2
        return x

    gc.collect()
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        torch.compile(chain)(torch.zeros(3))
        assert gc.get_freeze_count() >= before - 100  # a few ended
    finally:
        gc.unfreeze()
