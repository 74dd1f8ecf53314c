"""utils.hooks: handles, what pickling drops, and the hooks of whole modules."""

import gc
import pickle
from collections import OrderedDict, namedtuple

import pytest

import pullback as torch
from pullback.utils import hooks
from tests.leaves import leaf

# RemovableHandle ---------------------------------------------------------------------------------


def test_a_handle_removes_its_key_everywhere():
    """G-39."""
    table, more, third = OrderedDict(), OrderedDict(), OrderedDict()
    expected = hooks.RemovableHandle.next_id
    handle = hooks.RemovableHandle(table, extra_dict=[more, third])
    assert handle.id == expected
    assert hooks.RemovableHandle.next_id == expected + 1
    for one in (table, more, third):
        one[handle.id] = one["other"] = 1
    handle.remove()
    handle.remove()
    assert [list(one) for one in (table, more, third)] == [["other"]] * 3
    single = hooks.RemovableHandle(table, extra_dict=more)
    table[single.id] = more[single.id] = 1
    single.remove()
    assert list(more) == ["other"]


def test_a_handle_holds_tables_weakly():
    """G-39, G-40."""
    handle = hooks.RemovableHandle(OrderedDict(), extra_dict=OrderedDict())
    gc.collect()
    assert handle.hooks_dict_ref() is None
    handle.remove()
    with pytest.raises(TypeError):
        hooks.RemovableHandle({})


def test_a_handle_is_a_context():
    """G-40."""
    table = OrderedDict()
    handle = hooks.RemovableHandle(table)
    table[handle.id] = 1
    with handle as same:
        assert same is handle
        assert handle.id in table
    assert not table


def test_a_handle_survives_pickling():
    """G-41."""
    table, more = OrderedDict(), OrderedDict()
    handle = hooks.RemovableHandle(table, extra_dict=more)
    table[handle.id] = more[handle.id] = 1
    handle.id = hooks.RemovableHandle.next_id + 10
    table[handle.id] = 2
    copied_table, copied = pickle.loads(pickle.dumps((table, handle)))
    assert copied.hooks_dict_ref() is copied_table
    assert copied.id == handle.id
    assert hooks.RemovableHandle.next_id == handle.id + 1
    copied.remove()
    assert handle.id not in copied_table
    dead = pickle.loads(pickle.dumps(hooks.RemovableHandle(OrderedDict())))
    assert dead.hooks_dict_ref() is None
    dead.remove()


def test_hooks_that_may_be_dropped_are_marked():
    """G-42."""
    t = leaf()
    t.register_hook(hooks.unserializable_hook(lambda g: g))
    hooks.warn_if_has_hooks(t)
    hooks.warn_if_has_hooks(torch.ones(1))
    t.register_hook(lambda g: g)
    t.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="not saved") as caught:
        hooks.warn_if_has_hooks(t)
    assert len(caught) == 2


# BackwardHook ------------------------------------------------------------------------------------


def watched(inputs, forward, user_hooks=(), pre_hooks=()):
    watch = hooks.BackwardHook("module", list(user_hooks), list(pre_hooks))
    return watch.setup_output_hook(forward(watch.setup_input_hook(inputs)))


def test_all_inputs_and_all_outputs_share_a_node():
    """G-43."""
    watch = hooks.BackwardHook("module", [], [])
    a, text, b, constant = watch.setup_input_hook((leaf(), "text", leaf(), torch.ones(2)))
    assert text == "text"
    assert a.grad_fn is b.grad_fn
    assert a.grad_fn.name() == "BackwardHookFunctionBackward"
    assert not constant.requires_grad
    alone = watch.setup_output_hook(a * b)
    assert alone.grad_fn.name() == "BackwardHookFunctionBackward"
    pair = namedtuple("pair", "first second")
    outputs = watch.setup_output_hook(pair(a * 2, None))
    assert type(outputs) is pair
    assert outputs.second is None
    with torch.no_grad():
        x = leaf()
        assert watch.setup_input_hook((x,))[0] is x


def test_hooks_get_both_sides_and_may_replace():
    """G-44."""
    x, seen = leaf(), []

    def hook(module, grad_input, grad_output):
        seen.append((module, grad_input[0].tolist(), grad_input[1], grad_output[0].tolist()))
        return grad_input[0] * 2, None

    def first(module, grad_output):
        seen.append((module, grad_output[0].tolist()))
        return (grad_output[0] * 10,)

    watched((x, "option"), lambda args: args[0] * 3, [hook, hook], [first]).sum().backward()
    assert seen == [
        ("module", [1.0, 1.0]),
        ("module", [30.0, 30.0], None, [10.0, 10.0]),
        ("module", [60.0, 60.0], None, [10.0, 10.0]),
    ]
    assert x.grad.tolist() == [120.0, 120.0]


@pytest.mark.parametrize("kind", ["hook", "pre-hook"])
def test_the_number_of_gradients_is_fixed(kind):
    """G-44."""
    x = leaf()
    too_many = [lambda *_: (torch.ones(2),) * 3]
    pair = (too_many, []) if kind == "hook" else ([], too_many)
    y = watched((x,), lambda args: args[0] * 3, *pair)
    with pytest.raises(RuntimeError, match=r"3.*1"):
        y.sum().backward()


def test_without_inputs_that_require_grad_the_outputs_decide():
    """G-45."""
    weight, seen = leaf(), []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input, grad_output[0].tolist()))

    y = watched((torch.ones(2), "text"), lambda args: args[0] * weight, [hook])
    with pytest.warns(UserWarning, match="none of its inputs"):
        y.sum().backward()
    assert seen == [((None, None), [1.0, 1.0])]
    y = watched((3,), lambda args: weight * 2, [lambda *_: (torch.ones(2),)])
    with (
        pytest.warns(UserWarning, match="none of"),
        pytest.raises(RuntimeError, match="none of the inputs"),
    ):
        y.sum().backward()
    y = watched((3,), lambda args: weight * 2, [lambda *_: (None,)])
    with pytest.warns(UserWarning, match="none of"):
        y.sum().backward()
