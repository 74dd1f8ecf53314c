"""Copies, pickles, and how long things live: reference counting alone frees a graph."""

import copy
import gc
import io
import pickle
import subprocess
import sys
import threading
import tracemalloc
import warnings
import weakref

import pytest

import pullback as torch
from tests.leaves import leaf


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# Copies ------------------------------------------------------------------------------------------


def test_deepcopy_of_a_leaf():
    """V-185."""
    x = leaf()
    x.note = ["mine"]
    x.grad = torch.ones(2)
    x.register_hook(print)
    y, again = copy.deepcopy([x, x])
    assert y is again
    assert y.requires_grad
    assert y.data_ptr() != x.data_ptr()
    assert y.grad.tolist() == [1.0, 1.0]
    assert y.grad is not x.grad
    assert y.note == ["mine"]
    assert y.note is not x.note
    assert not y._backward_hooks


def test_deepcopy_of_a_non_leaf_is_refused():
    """V-185."""
    with pytest.raises(RuntimeError):
        copy.deepcopy(leaf() * 2)


def test_deepcopy_keeps_shared_memory_but_not_the_view_relation():
    """V-186."""
    base = torch.zeros(4)
    other, view = copy.deepcopy([base, base[1:]])
    view.add_(1)
    assert other.tolist() == [0.0, 1.0, 1.0, 1.0]
    assert view._base is None


def test_deepcopy_of_a_parameter_copies_data_and_flag():
    """V-186."""
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    p.note = 1
    q = copy.deepcopy(p)
    assert type(q) is torch.nn.Parameter
    assert q.requires_grad
    assert q.grad is None
    assert not hasattr(q, "note")


def test_pickle_keeps_what_the_tensor_is():
    """V-187."""
    x = torch.arange(6.0).view(2, 3).t().requires_grad_()
    x.note = "mine"
    x.grad = torch.ones(3, 2)
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == x.tolist()
    assert y.stride() == x.stride()
    assert y.requires_grad
    assert y.grad is None
    assert y.note == "mine"
    z = pickle.loads(pickle.dumps(leaf() * 2))
    assert z.is_leaf
    assert z.requires_grad


def test_pickle_of_a_hooked_tensor_warns():
    """V-187."""
    x = leaf()
    x.register_hook(lambda g: None)
    with pytest.warns(UserWarning, match="hook"):
        pickle.dumps(x)


def test_pickle_of_a_hook_that_is_marked_is_silent():
    """V-187."""
    x = leaf()
    x.register_hook(torch.utils.hooks.unserializable_hook(lambda g: None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = pickle.loads(pickle.dumps(x))
        file = io.BytesIO()
        torch.save(x, file)
    assert not y._backward_hooks
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_shallow_copy_is_a_leaf_on_the_same_memory():
    """V-188."""
    for t in (leaf(), leaf() * 2, torch.zeros(2)):
        c = copy.copy(t)
        assert c is not t
        assert c.is_leaf
        assert c.requires_grad == t.requires_grad
        assert c.data_ptr() == t.data_ptr()


def test_save_keeps_sharing():
    """V-188."""
    base = torch.zeros(4)
    file = io.BytesIO()
    torch.save([base, base[1:]], file)
    file.seek(0)
    a, b = torch.load(file)
    b.add_(1)
    assert a.tolist() == [0.0, 1.0, 1.0, 1.0]


# Lifetime ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_collector")
def test_graph_is_freed_by_counting():
    """V-194."""
    x = leaf()
    y = (x * x).exp()
    z = y[:1].sum()
    gone = [weakref.ref(y), weakref.ref(x)]
    del x, y
    assert gone[0]() is None
    assert gone[1]() is not None
    del z
    assert gone[1]() is None


@pytest.mark.usefixtures("no_collector")
def test_intermediates_that_nobody_saved_die_in_the_forward():
    """V-194."""
    x = leaf()
    y = x + 1
    z = y + 1
    gone = weakref.ref(y)
    del y
    assert gone() is None
    z.sum().backward()


@pytest.mark.usefixtures("no_collector")
def test_writes_to_views_make_no_cycle():
    """V-151, V-194."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    v = y[1:]
    v.exp_()
    v.mul_(v.detach() + 1)
    assert v.grad_fn is not None
    gone = [weakref.ref(y), weakref.ref(v)]
    del y, v
    assert [one() for one in gone] == [None, None]


@pytest.mark.parametrize("backward", [True, False])
def test_deep_chains_can_be_built_run_and_dropped(backward):
    """V-195."""
    x = leaf()
    y = x
    for _ in range(300_000):
        y = y + 1
    if backward:
        y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]
    assert sys.getrecursionlimit() < 100_000
    del y


def test_deep_chains_of_writes_to_views():
    """V-195."""
    x = leaf()
    y = x * 1
    for _ in range(20_000):
        y[:1].add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    del y


# A million of them are in the benchmarks (`million-views`).
MANY = 200_000


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("recorded", [True, False])
def test_many_views_of_one_base_live_and_die_by_counting(recorded):
    """V-76, V-194, V-195: the base knows none of them, each knows the base alone."""
    base = torch.ones(2, 3, requires_grad=True) * 1 if recorded else torch.ones(2, 3)
    before = len(gc.get_objects())
    views = [base.t() for _ in range(MANY)]
    assert views[-1]._base is base
    base.mul_(2)  # all are stale now, which none of them has been told
    assert views[-1].tolist() == [[2.0, 2.0]] * 3
    if recorded:
        assert views[0].grad_fn.name() == "AsStridedBackward0"
        (views[0] + views[-1]).sum().backward(retain_graph=True)
    gone = weakref.ref(base)
    del views
    assert len(gc.get_objects()) - before < 100
    del base
    assert gone() is None


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("backward", [True, False])
def test_many_views_on_one_another_are_built_run_and_dropped(backward):
    """V-76, V-195: none keeps the one before it alive, but for its node."""
    x = torch.ones(2, 3, requires_grad=True)
    before = len(gc.get_objects())
    view = x
    for _ in range(MANY):
        view = view.t()
    assert view._base is x
    if backward:
        view.sum().backward()
        assert x.grad.tolist() == [[1.0] * 3] * 2
    gone = weakref.ref(view)
    del view
    assert gone() is None
    assert len(gc.get_objects()) - before < 100


@pytest.mark.usefixtures("no_collector")
def test_views_made_and_dropped_leave_no_memory_behind():
    """V-76, V-194."""

    def work():
        base = torch.ones(100, requires_grad=True) * 1
        for _ in range(1_000):
            view = base[1:51].view(5, 10)
            view.add_(0)
            assert view.grad_fn is not None

    tracemalloc.start()
    try:
        work()  # what the interpreter keeps for reuse is kept now
        before = tracemalloc.get_traced_memory()[0]
        work()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 20_000


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_cycle_of_a_recorded_gradient_can_be_collected():
    """V-127, V-196."""
    x = leaf()
    (x * x).sum().backward(create_graph=True)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_threads_lose_no_update_of_a_shared_leaf():
    """V-197."""
    x = torch.zeros(100, requires_grad=True)

    def work():
        for _ in range(50):
            (x * 1.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad.tolist() == [200.0] * 100


# A short stack -----------------------------------------------------------------------------------

IN_A_BROWSER = """
import sys
import weakref

import numpy

sys.platform = "emscripten"
import pullback as torch

x = torch.ones(2, requires_grad=True)
"""


def in_a_browser(program):
    """What a program prints where nodes are freed as they are under WebAssembly."""
    run = [sys.executable, "-c", IN_A_BROWSER + program]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_under_webassembly_nodes_are_freed_one_after_the_other():
    """How deep the freeing goes is told by what nodes hold, which dies with them."""
    depths = in_a_browser("""
depths = []

class Told:
    def __del__(self):
        frame, depth = sys._getframe(), 0
        while frame is not None:
            frame, depth = frame.f_back, depth + 1
        depths.append(depth)

y = x
for _ in range(300):
    y = torch.stack((y * 2, y)).sum(0).view(2)[:]
    y.grad_fn.metadata["told"] = Told()
y.sum().backward()
nodes = [weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.next_functions[0][0])]
del y
print(len(depths), max(depths), [node() for node in nodes])
""")
    assert depths == ["300 3 [None, None]"]


def test_under_webassembly_a_graph_in_a_cycle_does_not_come_back_unnoticed():
    said = in_a_browser("""
import gc

class Owner:
    def __del__(self):
        kept.append(self)

kept = []
owner = Owner()
owner.loss, owner.itself = (x * 2).exp().sum(), owner
del owner
gc.collect()
try:
    kept[0].loss.backward()
except AttributeError as error:
    print("refused")
else:
    print(torch.equal(x.grad, 2 * (x * 2).exp()))
""")
    assert said[0] in ("refused", "True")  # by what the collector came to first
