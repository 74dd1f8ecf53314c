"""Views: what is one, what it knows of its base, and how it follows writes to shared memory."""

import weakref

import pytest

import pullback as torch
from tests.leaves import counted_leaf as leaf

ONE_OUTPUT = {
    "int": lambda x: x[0],
    "slice": lambda x: x[:1],
    "none": lambda x: x[None],
    "dots": lambda x: x[..., 0],
    "view": lambda x: x.view(6),
    "view_as": lambda x: x.view_as(torch.zeros(3, 2)),
    "reshape": lambda x: x.reshape(6),
    "flatten": lambda x: x.flatten(),
    "expand": lambda x: x.expand(2, 2, 3),
    "expand_as": lambda x: x.expand_as(torch.zeros(2, 2, 3)),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "mH": lambda x: x.mH,
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "movedim": lambda x: x.movedim(0, 1),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "select": lambda x: x.select(0, 1),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "unflatten": lambda x: x.unflatten(0, (2, 1)),
    "as_strided": lambda x: x.as_strided((2,), (1,)),
}
MULTI_OUTPUT = {
    "unbind": lambda x: x.unbind(0),
    "iter": tuple,
    "split": lambda x: x.split(1),
    "split_with_sizes": lambda x: x.split_with_sizes([1, 1]),
    "chunk": lambda x: x.chunk(2),
}
SPLITS = {
    "tensor_split": lambda x: x.tensor_split(2),
    "hsplit": lambda x: x.hsplit(3),
    "vsplit": lambda x: x.vsplit(2),
}


@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_view_operators_share_memory_counter_and_base(name):
    """V-72, V-75."""
    for x in (leaf(2, 3), torch.zeros(2, 3)):
        v = ONE_OUTPUT[name](x)
        assert v._is_view()
        assert v._base is x
        assert v.is_leaf == (not x.requires_grad)
        with torch.no_grad():
            x.add_(1)
        assert v._version == 1


def test_complex_parts_are_views():
    """V-72."""
    z = torch.zeros(2, dtype=torch.complex128, requires_grad=True)
    for v in (z.real, z.imag, torch.view_as_real(z)):
        assert v._base is z
    r = torch.zeros(2, 2, requires_grad=True)
    assert torch.view_as_complex(r)._base is r


@pytest.mark.parametrize("name", MULTI_OUTPUT)
def test_multi_output_views_come_from_one_node(name):
    """V-73."""
    x = leaf(2, 3)
    outs = MULTI_OUTPUT[name](x)
    assert len({o.grad_fn for o in outs}) == 1
    assert [o.output_nr for o in outs] == list(range(len(outs)))
    assert all(o._base is x for o in outs)


@pytest.mark.parametrize("name", SPLITS)
def test_splits_are_views(name):
    """V-72."""
    x = leaf(2, 3)
    assert all(o._base is x for o in SPLITS[name](x))


@pytest.mark.parametrize(
    "index", [torch.tensor([0, 1]), [0, 1], torch.tensor([True, False, True, True])]
)
def test_advanced_indexing_copies(index):
    """V-74."""
    assert leaf()[index]._base is None


def test_base_is_the_root_of_a_chain():
    """V-75."""
    x = leaf(2, 3)
    v = x.t()[1:].view(-1) if x.t()[1:].is_contiguous() else x.t()[1:].select(0, 0)
    assert v._base is x
    assert x._base is None
    y = x * 1
    assert y[0][1:]._base is y


def test_view_keeps_its_base_and_not_the_views_between():
    """V-76."""
    x = torch.zeros(4)
    middle = x[1:]
    last = middle[1:]
    base, between = weakref.ref(x), weakref.ref(middle)
    del x, middle
    assert between() is None
    assert base() is not None
    keeper = base()
    gone = weakref.ref(last)
    del last
    assert gone() is None
    assert keeper is not None


def test_views_under_no_grad_mirror_the_base():
    """V-77."""
    x = leaf()
    with torch.no_grad():
        v, y = x.view(4), x * 2
        assert v.requires_grad
        assert not y.requires_grad
    assert v._base is x
    assert v.grad_fn is None
    assert v.is_leaf


def test_detached_alias_is_outside_of_the_view_relation():
    """V-78."""
    x = leaf()
    y = x * 1
    d = y.detach()
    d.mul_(3)
    assert d._base is None
    assert not d.requires_grad
    y[0].backward()
    assert x.grad.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_view_can_be_replayed_on_another_base():
    """V-79."""
    x = leaf()
    v = x[1:]
    other = torch.zeros(4, dtype=torch.float64)
    assert v._view_func(other).shape == (3,)
    assert v._view_func(other)._base is other
    assert v._view_func(torch.zeros(5, dtype=torch.float64)) is None
    assert x._view_func(other) is None


def test_creation_tags_can_be_read():
    """V-80."""
    get, tags = torch._C._autograd._get_creation_meta, torch._C._autograd.CreationMeta
    x = leaf()
    assert get(x[1:]) == tags.DEFAULT
    assert get(x.unbind(0)[0]) == tags.MULTI_OUTPUT_NODE
    with torch.no_grad():
        assert get(x[1:]) == tags.NO_GRAD_MODE
    with torch.inference_mode():
        assert get(x[1:]) == tags.INFERENCE_MODE
    v = x[1:]
    torch._C._autograd._set_creation_meta(v, tags.NO_GRAD_MODE)
    assert get(v) == tags.NO_GRAD_MODE


def test_gradient_of_a_view_has_the_shape_of_the_base():
    """V-82."""
    x = leaf()
    x[1:3].sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert x.grad.data_ptr() != x.data_ptr()


def test_chains_with_complex_steps_are_regenerated():
    """V-83."""
    x = torch.arange(8.0).view(4, 2).clone().requires_grad_()
    y = x * 1
    v = torch.view_as_complex(y)[1:].imag
    y.mul_(3)
    v.sum().backward()
    assert x.grad.tolist() == [[0, 0], [0, 3], [0, 3], [0, 3]]


def test_chains_on_non_contiguous_bases_are_regenerated():
    """V-83."""
    x = leaf(3, 2)
    y = (x * 1).t().clone(memory_format=torch.preserve_format)
    v = y[1:].select(1, 2)
    y.mul_(torch.tensor(2.0, dtype=torch.float64))
    v.backward(torch.ones(1, dtype=torch.float64))
    assert x.grad.tolist() == [[0, 0], [0, 0], [0, 2]]


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(1),
        lambda t: t.copy_(torch.zeros(3)),
        lambda t: t.mul_(torch.ones(3)),
        lambda t: t.exp_(),
    ],
)
def test_writes_to_repeated_elements_are_refused(write):
    """V-84."""
    t = torch.zeros(1).expand(3)
    with pytest.raises(RuntimeError, match="clone"):
        write(t)


@pytest.mark.parametrize("write", [lambda t: t.zero_(), lambda t: t.fill_(0)])
def test_filling_repeated_elements_is_allowed(write):
    """V-84: the one value goes to the one place."""
    base = torch.ones(2, 1)
    write(base.expand(2, 3))
    assert base.tolist() == [[0.0], [0.0]]
    assert base._version == 1


def test_filling_repeated_elements_is_recorded():
    """V-84, V-92: torch's backward refuses its own write here."""
    x = leaf(2, 1)
    y = x * 2
    y.expand(2, 3).zero_()
    y.sum().backward()
    assert x.grad.tolist() == [[0.0], [0.0]]


def test_partial_overlap_of_source_and_target_is_refused():
    """V-84."""
    t = torch.zeros(4)
    with pytest.raises(RuntimeError, match=r"[Cc]lone"):
        t[1:].copy_(t[:-1])
    t.add_(t)
    t[1:].copy_(t[1:])


def test_reading_overlapping_views_sums_gradients():
    """V-85."""
    x = leaf()
    x.unfold(0, 2, 1).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.contiguous(),
        lambda x: x.flatten(),
        lambda x: x.to(torch.float64),
        lambda x: x.double(),
        lambda x: x.to("cpu"),
    ],
)
def test_what_need_not_change_is_the_same_object(use):
    """V-86."""
    x = leaf()
    assert use(x) is x


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[:],
        lambda x: x[...],
        lambda x: x.view(4),
        lambda x: x.reshape(4),
        lambda x: x.expand(4),
        lambda x: x.squeeze(),
    ],
)
def test_trivial_views_are_new_objects(use):
    """V-86."""
    x = leaf()
    assert use(x) is not x
    assert use(x)._base is x


# Replayed views -----------------------------------------------------------------------------------


def test_original_view_tracking_replays_the_operators():
    """V-81"""
    x = torch.arange(4.0, requires_grad=True) * 1
    with torch.autograd.grad_mode._force_original_view_tracking(True):
        view = x[1:]
        wide = x[:2].view(2, 1)
    plain = x[1:]
    x.mul_(2)
    assert view.grad_fn.name() == "SliceBackward0"
    assert wide.grad_fn.name() == "ViewBackward0"
    assert wide.grad_fn.next_functions[0][0].name() == "SliceBackward0"
    assert plain.grad_fn.name() == "AsStridedBackward0"


def test_original_view_tracking_holds_at_once_and_as_a_decorator():
    """V-81"""
    force = torch.autograd.grad_mode._force_original_view_tracking

    def name():
        x = torch.ones(3, requires_grad=True) * 1
        view = x[1:]
        x.add_(1)
        return view.grad_fn.name()

    switch = force(True)
    assert name() == "SliceBackward0"
    switch.__exit__(None, None, None)
    assert name() == "AsStridedBackward0"
    assert force(True)(name)() == "SliceBackward0"
    assert name() == "AsStridedBackward0"


def test_steps_that_strides_cannot_express_are_always_replayed():
    """V-81, V-83"""
    x = torch.ones(3, 2, requires_grad=True) * 1
    view = torch.view_as_complex(x)[1:]
    x.mul_(2)
    assert view.grad_fn.name() != "AsStridedBackward0" or view._node.manner.replay is not None
    view.abs().sum().backward()


# Views that lead nowhere --------------------------------------------------------------------------


def test_an_operand_is_not_kept_for_a_view_that_leads_nowhere():
    """V-21: made under no_grad, its gradient goes nobody's way, so nothing is saved for it"""
    x = torch.ones(3, requires_grad=True)
    other = torch.full((3,), 2.0, requires_grad=True) * 1
    with torch.no_grad():
        view = x[:]
    product = other * view
    assert product.grad_fn.next_functions[1] == (None, 0)
    assert product.grad_fn._saved_self is None
    other.add_(1)  # only the view's gradient would have needed it
    product.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("value", [True, False])
def test_requires_grad_can_be_set_on_a_view_whose_history_is_lost(value):
    """V-13, V-22: whether it is a leaf is not asked, since that would raise"""
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        view = x[:2]
        x.add_(1)
    with pytest.raises(RuntimeError, match="no_grad"):
        view.is_leaf
    assert view.requires_grad_(value) is view


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_views_under_no_grad_know_their_base_whatever_its_order_in_memory(order):
    """V-77: a clone keeps the order of dimensions"""
    base = torch.ones(2, 3, 4, requires_grad=True).permute(order).clone()
    with torch.no_grad():
        view = base.unsqueeze(0).expand(2, *base.shape)
        assert view._base is base
        assert base.unfold(0, 1, 1)._base is base
    assert view.requires_grad


# The view, whether its base is cut off, what is written to the base -> the view's node, and the
# gradients of (v * v).sum() with respect to what the base was made of, the factor and the view.
OUTLIVED = {
    ("inner", True, "number"): ("AsStridedBackward0", None, None, [4, 4]),
    ("inner", True, "factor"): ("AsStridedBackward0", None, [6, 6, 0], [6, 6]),
    ("inner", False, "number"): ("AsStridedBackward0", [4, 4, 0], None, [4, 4]),
    ("inner", False, "factor"): ("AsStridedBackward0", [18, 18, 0], [6, 6, 0], [6, 6]),
    ("leaf", True, "number"): (None, None, None, [4, 4]),
    ("leaf", True, "factor"): ("AsStridedBackward0", None, [6, 6, 0], [6, 6]),
    ("leaf", False, "number"): (None, None, None, [4, 4]),
    ("leaf", False, "factor"): ("AsStridedBackward0", None, [6, 6, 0], [6, 6]),
    ("plain", True, "number"): (None, None, None, None),
    ("plain", False, "factor"): ("AsStridedBackward0", None, [6, 6, 0], [6, 6]),
}


@pytest.mark.parametrize(("kind", "cut", "written"), OUTLIVED)
def test_a_view_may_outlive_the_history_of_its_base(kind, cut, written):
    x = torch.ones(3, requires_grad=True)
    factor = torch.full((3,), 3.0, requires_grad=True)
    base = x * 1 if kind == "inner" else torch.ones(3)
    view = base[:2]
    if kind == "leaf":
        view.requires_grad_()
    if cut:
        base.detach_()
    if written == "number":
        base.add_(1)
    else:
        base.mul_(factor)
    name, *expected = OUTLIVED[kind, cut, written]
    node = view.grad_fn
    assert (node and node.name()) == name
    assert view.requires_grad == (expected[-1] is not None)
    if view.requires_grad:
        asked = [x, factor, view]
        found = torch.autograd.grad((view * view).sum(), asked, allow_unused=True)
        assert [None if g is None else g.tolist() for g in found] == expected
