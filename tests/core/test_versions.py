"""The version counter: what counts as a write, who shares the count, and what escapes it."""

import inspect
import random
import sys
import threading

import numpy as np
import pytest

import pullback as torch
from pullback.core import version
from tests.leaves import leaf


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(0),
        lambda t: t.mul_(2),
        lambda t: t.copy_(torch.ones(2, 2)),
        lambda t: t.zero_(),
        lambda t: t.fill_(3),
        lambda t: t.t_(),
        lambda t: t.squeeze_(),
        lambda t: t.unsqueeze_(0),
        lambda t: t.set_(torch.ones(2)),
        lambda t: t.normal_(),
        lambda t: t.uniform_(),
        lambda t: t.resize_(3),
        lambda t: t.__setitem__(0, 1),
        lambda t: t.__setitem__(slice(0, 0), 1),
        lambda t: t.__iadd__(1),
        lambda t: t.relu_(),
        lambda t: t.clamp_(0, 1),
        lambda t: t.masked_fill_(t > 0, 1),
        lambda t: t.index_fill_(0, torch.tensor([0]), 1.0),
        lambda t: torch.add(t, 1, out=t),
        lambda t: torch.exp(torch.ones(2, 2), out=t),
        lambda t: t.transpose_(0, 1),
    ],
)
def test_every_write_counts_once(write):
    """V-63, V-64."""
    for grad in (True, False):
        t = torch.zeros(2, 2)
        assert t._version == 0
        with torch.set_grad_enabled(grad):
            write(t)
        assert t._version == 1


def test_writes_to_empty_tensors_count():
    """V-63."""
    t = torch.zeros(0)
    t.add_(1)
    t.zero_()
    assert t._version == 2


def test_written_function_argument_counts():
    """V-64."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = leaf() * 1
    Double.apply(y)
    assert y._version == 2  # the write, and that it was declared


def test_version_is_read_only():
    """V-34, V-63."""
    t = torch.zeros(1)
    assert type(t._version) is int
    for name in ("_version", "grad_fn", "is_leaf", "output_nr"):
        with pytest.raises(AttributeError):
            setattr(t, name, 1)


def test_resize_counts_only_a_change():
    """V-65."""
    t = torch.zeros(2)
    t.resize_(2)
    assert t._version == 0
    t.resize_(3)
    assert t._version == 1


def test_what_never_counts():
    """V-65."""
    x = leaf()
    y = x * 1
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    x.requires_grad_(False).requires_grad_()
    y.detach_()
    assert (x._version, y._version) == (0, 0)


def test_counter_is_shared_by_views_and_aliases():
    """V-66."""
    base = torch.zeros(4)
    view, alias = base[:2], base.detach()
    deeper = view[:1]
    deeper.add_(1)
    assert [t._version for t in (base, view, alias, deeper)] == [1, 1, 1, 1]
    alias.add_(1)
    assert base._version == 2


def test_counter_is_shared_by_saved_outputs():
    """V-66."""
    y = leaf().exp()
    kept = y.grad_fn._saved_result
    y.detach().add_(1)
    assert kept._version == 1


def test_counter_is_not_shared_by_copies_and_data():
    """V-66."""
    base = torch.zeros(4)
    others = [base.data, base.clone(), torch.from_numpy(base.numpy()), torch.zeros(4).set_(base)]
    counted = [t._version for t in others]
    base.add_(1)
    assert [t._version for t in others] == counted


def test_augmented_item_assignment_counts():
    """V-67."""
    a = torch.zeros(4)
    a[1:] += 1
    assert a._version == 2
    a[torch.tensor([0])] += 1
    assert a._version == 3


def test_writes_through_numpy_do_not_count_unless_declared():
    """V-68."""
    t, u = torch.zeros(2), torch.zeros(2)
    t.numpy()[0] = 1
    assert t._version == 0
    torch.autograd.graph.increment_version(t)
    torch.autograd.graph.increment_version([t, u])
    assert (t._version, u._version) == (2, 1)
    with pytest.raises(RuntimeError):
        torch.autograd.graph.increment_version([t, 3])
    with torch.inference_mode():
        i = torch.zeros(1)
    torch.autograd.graph.increment_version(i)


def test_version_can_be_preserved_over_a_block():
    """V-69."""
    t, u = torch.zeros(2), torch.zeros(2)
    with torch.autograd._unsafe_preserve_version_counter(t):
        t.add_(1)
    with torch.autograd._unsafe_preserve_version_counter((t, u)):
        t.add_(1)
        u.add_(1)
    assert (t._version, u._version) == (0, 0)
    with pytest.raises(AssertionError):
        torch.autograd._unsafe_preserve_version_counter([t])


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(torch.zeros(3, 2)),
        lambda t: t.mul_(torch.ones(2, dtype=torch.complex64)),
        lambda t: t.copy_(torch.zeros(3)),
        lambda t: t.copy_(torch.zeros(2, 2)),
        lambda t: t.fill_(torch.zeros(2)),
        lambda t: t.__setitem__(5, 1),
        lambda t: t.__setitem__(slice(0, 2), torch.zeros(3)),
        lambda t: t.view(3),
        lambda t: t.add_("x"),
    ],
)
def test_failed_write_leaves_everything_as_it_was(write):
    """V-70."""
    for t in (torch.ones(2), leaf() * 1):
        before, node = t.tolist(), t.grad_fn
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            write(t)
        assert t.tolist() == before
        assert t._version == 0
        assert t.grad_fn is node


def test_assigned_data_keeps_the_counter():
    """V-71."""
    t = torch.zeros(2)
    t.add_(1)
    other = torch.zeros(3)
    for _ in range(5):
        other.add_(1)
    t.data = other
    assert t._version == 1


# detach and data ---------------------------------------------------------------------------------


def test_detach_is_a_plain_leaf_on_the_same_memory_and_counter():
    """V-55, V-62."""
    x = leaf()
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            d = x.detach()
        assert d is not x
        assert d.data_ptr() == x.data_ptr()
        assert d.is_leaf
        assert not d.requires_grad
        assert d._base is None
        assert not d._is_view()
    plain = torch.zeros(1)
    assert plain.detach() is not plain


def test_writes_through_detach_show_and_are_caught():
    """V-56."""
    x = leaf()
    y = (x * x).sum()
    x.detach().add_(1)
    assert x.tolist() == [2.0, 3.0]
    with pytest.raises(RuntimeError, match=r"version 1"):
        y.backward()


def test_writes_through_data_escape():
    """V-57."""
    x = leaf()
    y = (x * x).sum()
    assert x.data._version == 0
    x.data.add_(1)
    assert x._version == 0
    y.backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_detach_in_place():
    """V-58."""
    x = leaf()
    y = x * 2
    z = y * 3
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad
    assert y._version == 0
    z.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_views_cannot_be_detached_in_place():
    """V-59."""
    for t in (leaf(), torch.zeros(2)):
        with pytest.raises(RuntimeError, match="detach"):
            t.view(2).detach_()


def test_saved_input_detached_in_place_is_refused_in_backward():
    """V-60."""
    x = leaf()
    y = x * 1
    z = (y * y).sum()
    y.detach_()
    with pytest.raises(RuntimeError, match="detach"):
        z.backward()


def test_saved_output_detached_in_place_is_fine():
    """V-60."""
    x = leaf()
    y = x.exp()
    z = y.sum()
    y.detach_()
    z.backward()
    assert np.allclose(x.grad.tolist(), np.exp([1.0, 2.0]))


def test_shape_changes_of_an_alias_leave_the_original():
    """V-61."""
    x = torch.zeros(2, 3, requires_grad=True)
    x.data.t_()
    x.detach().t_()
    x.data.resize_(7)
    x.data.set_(torch.zeros(1))
    assert x.shape == (2, 3)


def test_data_assignment_keeps_identity_history_and_version():
    """V-189."""
    x = leaf()
    x.grad = torch.ones(2)
    g, view = x.grad, x.view(2)
    x.data = torch.tensor([7.0, 8.0, 9.0])
    assert x.tolist() == [7.0, 8.0, 9.0]
    assert x.grad is g
    assert x.requires_grad
    assert view.tolist() == [1.0, 2.0]
    with pytest.raises(TypeError):
        x.data = [1.0]
    with pytest.raises(RuntimeError):
        x.data = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(RuntimeError):
        del x.data


def test_numpy_refuses_tensors_that_require_grad():
    """V-190."""
    x = leaf()
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    with pytest.raises(RuntimeError, match="detach"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1.0, 2.0]
    with torch.no_grad():
        assert np.asarray(x).tolist() == [1.0, 2.0]
    assert x.sum().item() == 3.0
    assert x.tolist() == [1.0, 2.0]


# Which line changed my tensor? --------------------------------------------------------------------


def lines_of(function, *texts):
    lines, start = inspect.getsourcelines(function)
    return [start + next(i for i, line in enumerate(lines) if text in line) for text in texts]


def test_every_write_since_the_save_is_named_with_its_line():
    """V-146: with the line that saved the value, and the remedy"""
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    y.neg_()  # before the save: not to blame
    saved = y * y
    y.add_(1)
    y[0] = 2
    y.detach().mul_(3)
    with pytest.raises(RuntimeError) as raised:
        saved.sum().backward()
    text = str(raised.value)
    here = test_every_write_since_the_save_is_named_with_its_line
    places = lines_of(here, "y * y", "y.add_(1)", "y[0] = 2", "mul_(3)", "neg_()")
    where = [f"test_versions.py:{line}" for line in places]
    assert f"MulBackward0 at {where[0]}" in text
    assert f"add_ at {where[1]}, then __setitem__ at {where[2]}, then mul_ at {where[3]}" in text
    assert where[4] not in text
    assert "version 4, expected version 1" in text
    assert "Clone it before the write, or write out of place" in text


@pytest.mark.parametrize("times", [3, 20, 31, 32, 33, 63, 64, 65, 100, 1000])
def test_writes_of_a_loop_are_named_however_often_it_ran(times):
    """V-146: each place once"""
    y = torch.ones(3, requires_grad=True) * 1
    saved = y.exp()
    product = saved * saved
    saved.sub_(1)
    for _ in range(times):
        saved.add_(1)
        saved.mul_(1)
    with pytest.raises(RuntimeError) as raised:
        product.sum().backward()
    here = test_writes_of_a_loop_are_named_however_often_it_ran
    places = lines_of(here, "sub_(1)", "add_(1)", "saved.mul_(1)")
    writes = zip(("sub_", "add_", "mul_"), places, strict=True)
    names = [f"{name} at test_versions.py:{line}" for name, line in writes]
    text = str(raised.value)
    assert all(text.count(name) == 1 for name in names)
    assert "add_ at" in text
    assert text.count("more than once") == 2


@pytest.mark.parametrize("before", [0, 5, 40, 200])
def test_writes_before_the_save_are_not_named(before):
    """V-146"""
    y = torch.ones(3, requires_grad=True) * 1
    for _ in range(before):
        y.neg_()
    saved = y * y
    for _ in range(40):
        y.add_(1)
    with pytest.raises(RuntimeError) as raised:
        saved.sum().backward()
    assert "add_" in str(raised.value)
    assert "neg_" not in str(raised.value)


def test_a_tensor_written_often_remembers_a_bounded_number_of_writes():
    y = torch.ones(3)
    for _ in range(1000):
        y.add_(1)
    assert len(y._cell) < 80
    assert y._version == 1000


def test_a_write_to_many_tensors_is_counted_once_in_each_with_the_users_line():
    fresh, viewed = torch.ones(2), torch.ones(3)
    view = viewed[1:]
    for _ in range(100):  # more than a counter keeps one by one
        version.bump_all([fresh, viewed], "step")
    assert (fresh._version, viewed._version, view._version) == (100, 100, 100)
    last = version.writes(fresh._cell)[-1]
    assert "step" in last
    assert "test_versions.py" in last


def fold_while(cell, action):
    """Shorten `cell` and, once that has looked at what there is, do `action`."""

    class Memory(list):
        def __getitem__(self, index):
            found = super().__getitem__(index)
            if isinstance(index, slice) and not done:
                done.append(True)
                action(self)
            return found

    done = []
    memory = Memory(cell)
    version.shorten(memory)
    assert done
    return memory


def test_writes_that_another_thread_counts_during_a_fold_are_kept():
    write = ("add_", inspect.currentframe().f_code, 0)
    cell = [70, *[write] * 70]
    memory = fold_while(cell, lambda shared: shared.extend([write] * 5))
    assert len(memory) == 1 + 1 + 8 + 5
    assert [write] * 13 == memory[2:]


def test_two_threads_may_fold_one_counter_at_once():
    """Entries that one has taken away were missing to the other (IndexError)"""
    write = ("add_", inspect.currentframe().f_code, 0)
    memory = fold_while([70, *[write] * 70], version.shorten)
    assert memory[0] == 70
    assert len(version.writes(memory)) == 1
    for _ in range(200):
        memory[0] += 1
        memory.append(write)
        if len(memory) > version.MOST_WRITES:
            version.shorten(memory)
    assert len(memory) <= version.MOST_WRITES


def test_threads_may_write_to_one_tensor_without_agreeing_on_who_goes_first():
    """Training without locks (Hogwild)"""
    shared = torch.zeros(2)
    together = threading.Barrier(4)
    errors = []

    def train():
        try:
            together.wait()
            with torch.no_grad():
                for _ in range(2000):
                    shared.add_(1)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=train) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    assert len(shared._cell) < 80


@pytest.mark.parametrize("written", [False, True])
def test_what_is_saved_after_detach_is_checked_as_ever_and_what_was_before_is_refused(written):
    """Of the tensor that was torn from its node, and of another in the same memory."""
    x, w = (torch.full((3,), value, requires_grad=True) for value in (2.0, 3.0))
    y = x * 1
    alias = y.detach()
    before, of_alias_before = y * w, alias * w
    y.detach_()
    after, of_alias = y * w, alias * w
    if written:
        y.add_(1)
    with pytest.raises(RuntimeError, match="detach_"):
        before.sum().backward()
    for made in (after, of_alias, of_alias_before):
        if written:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                torch.autograd.grad(made.sum(), w)
        else:
            assert torch.autograd.grad(made.sum(), w)[0].tolist() == [2, 2, 2]
    assert y._version == alias._version == int(written)
    for one in (y, alias):  # as it is now
        assert torch.autograd.grad((one * w).sum(), w)[0].tolist() == one.tolist()


INDEXED = {
    "read": lambda x, indices, v: x[indices],
    "write": lambda x, indices, v: (x * 1).index_put_(indices, v),
    "add": lambda x, indices, v: x.index_put(indices, v, accumulate=True),
}


@pytest.mark.parametrize("how", INDEXED)
@pytest.mark.parametrize("count", range(1, 5))
def test_each_of_many_index_tensors_is_checked(count, how):
    """They are saved one by one up to two, and in a tuple beyond."""
    for written in [None, *range(count)]:
        x = torch.ones([2] * count, requires_grad=True)
        v = torch.ones(2, requires_grad=True)
        indices = tuple(torch.tensor([0, 1]) for _ in range(count))
        made = INDEXED[how](x, indices, v)
        if written is None:
            made.sum().backward()
            kept = {"read": 2, "write": 2**count - 2, "add": 2**count}[how]
            assert x.grad.sum().item() == kept
            continue
        indices[written].zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            made.sum().backward()


@pytest.mark.parametrize("seed", range(12))
def test_what_is_told_of_writes_is_true_and_takes_little_room(seed):
    """Against all that was written: exact for as long as every write is looked at."""
    draw = random.Random(seed)
    code, places = inspect.getsource.__code__, draw.choice([2, 10, 30, 90])
    cell, written = [0], []
    while len(written) < 400:
        place = draw.randrange(places)
        for _ in range(draw.choice([1, 1, 3, 70]) if seed % 2 else 1):
            cell[0] += 1
            cell.append((f"write_{place}_", code, 2 * place))
            if len(cell) > version.MOST_WRITES:
                version.shorten(cell)
            written.append(place)
            assert len(cell) <= version.MOST_WRITES
            assert len(cell[1]) <= 32  # a write, or what many were folded to
        since = draw.randrange(len(written))
        told = {int(one.split("_")[1]) for one in version.writes(cell, since)}
        assert told <= set(written[since:])
        assert told >= set(written[max(since, len(written) - 8) :])
        if len(written) <= 130 and places <= 32:
            assert told == set(written[since:])


def test_notes_of_writes_do_not_grow_with_their_number():
    by_operator, one, *several = (torch.zeros(2) for _ in range(4))
    for _ in range(300):
        by_operator.add_(1)
        version.bump(one, "fill_")
        version.bump_all(several, "_foreach_add_")
    for tensor in (by_operator, one, *several):
        assert tensor._version == 300
        assert len(tensor._cell) <= version.MOST_WRITES
