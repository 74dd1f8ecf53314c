"""Brackets: what is a view and what a copy; what an assignment does to values and history."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck

WHOLE = slice(None)


def ramp(*shape, **options):
    size = int(numpy.prod(shape))
    return torch.arange(size, dtype=torch.float64).reshape(shape).clone().requires_grad_(**options)


def computed(*shape):
    """A tensor with history, and its leaf."""
    leaf = ramp(*shape)
    return leaf * 1, leaf


def gradient_of(t, leaf):
    (g,) = torch.autograd.grad(t.sum(), leaf, retain_graph=True)
    return g.tolist()


def names(t):
    """The chain of nodes behind a tensor, its own first."""
    found, node = [], t.grad_fn
    while node is not None:
        found.append(type(node).__name__)
        node = node.next_functions[0][0] if node.next_functions else None
    return found


# Reading -----------------------------------------------------------------------------------------

BASIC_KEYS = [
    0,
    -1,
    slice(1, None),
    slice(None, None, 2),
    slice(5, 9),
    None,
    Ellipsis,
    (),
    (1, 2),
    (WHOLE, 1),
    (Ellipsis, 0),
    (0, Ellipsis, 1),
    (None, 1, None, WHOLE, slice(0, 2)),
    (0, 1, 2),
    (numpy.int64(1), slice(numpy.int64(0), 2)),
]


@pytest.mark.parametrize("key", BASIC_KEYS, ids=str)
@pytest.mark.parametrize("tracked", [True, False])
def test_basic_keys_give_views_of_the_same_elements(key, tracked):
    x = ramp(2, 3, 4, requires_grad=tracked)
    part = x[key]
    expected = x.detach().numpy()[key]
    assert part.shape == expected.shape
    assert part.tolist() == expected.tolist()
    assert part._base is x
    assert part.requires_grad is tracked
    assert numpy.may_share_memory(part.detach().numpy(), x.detach().numpy()) or not part.numel()


ADVANCED_KEYS = [
    [0, 1],
    [1],
    [],
    ([0, 1], [2, 0]),
    ([0, 1], WHOLE, [3, 3]),
    (WHOLE, [0, 2, 2]),
    (WHOLE, [[0, 1], [2, 0]]),
    (WHOLE, [0, 1], [1, 3]),
    (WHOLE, WHOLE, [[0], [3]]),
    (slice(0, 1), [-1, 0]),
    (Ellipsis, [1, -2]),
    ([1, 0], None, [0, 1]),
    ([[0], [1]], [0, 2]),
    numpy.array([1, 1, 0]),
    numpy.array([True, False]),
    (WHOLE, numpy.array([True, False, True])),
    numpy.arange(6).reshape(2, 3) > 2,
    numpy.arange(24).reshape(2, 3, 4) % 5 == 0,
    ([0, 1, 0], [0, 1, 2], [3, 2, 1]),
]


@pytest.mark.parametrize("key", ADVANCED_KEYS, ids=str)
def test_index_arrays_and_masks_give_what_numpy_gives_in_new_memory(key):
    x = ramp(2, 3, 4, requires_grad=True)
    array = x.detach().numpy()
    expected = array[numpy.array([], int) if isinstance(key, list) and not key else key]
    part = x[key]
    assert part.tolist() == expected.tolist()
    assert part.shape == expected.shape
    assert part._base is None
    assert part.is_contiguous()
    assert type(part.grad_fn).__name__ == "IndexBackward0"


def test_an_int_among_index_tensors_is_a_selection_and_moves_nothing():
    x = ramp(2, 3, 4)
    index = torch.tensor([0, 1])
    assert x[0, :, index].shape == (3, 2)  # NumPy's rule would give (2, 3)
    assert torch.equal(x[0, :, index], x[0][:, index])


def test_tensors_arrays_and_lists_are_the_same_index():
    x = ramp(3, 2)
    for index in (torch.tensor([2, 0]), torch.tensor([2, 0], dtype=torch.int32)):
        assert torch.equal(x[index], x[[2, 0]])
        assert torch.equal(x[index.numpy()], x[[2, 0]])
    assert torch.equal(x[range(2)], x[[0, 1]])


def test_a_0d_integer_tensor_selects_and_a_0d_bool_makes_a_dimension():
    x = ramp(3, 2)
    assert x[torch.tensor(1)]._base is x
    assert x[torch.tensor(1)].tolist() == x[1].tolist()
    assert x[True].shape == x[torch.tensor(True)].shape == (1, 3, 2)
    assert x[False].shape == x[torch.tensor(False)].shape == (0, 3, 2)
    assert x[True]._base is None
    assert ramp()[True].shape == (1,)


def test_whole_slices_are_left_out_of_the_chain():
    x = ramp(2, 3)
    assert names(x[:, 0]) == ["SelectBackward0", "AccumulateGrad"]
    assert names(x[:]) == ["SliceBackward0", "AccumulateGrad"]
    assert names(x[:, :]) == ["AliasBackward0", "AccumulateGrad"]
    assert names(x[1, 1:]) == ["SliceBackward0", "SelectBackward0", "AccumulateGrad"]
    assert names(x[1:, torch.tensor([0])]) == ["IndexBackward0", "SliceBackward0", "AccumulateGrad"]


@pytest.mark.parametrize(
    ("key", "kind", "words"),
    [
        (5, IndexError, "index 5 is out of bounds"),
        (-3, IndexError, "index -3 is out of bounds"),
        ((0, 0, 0), IndexError, "too many indices: 3"),
        (1.0, IndexError, "float"),
        (1j, IndexError, "complex"),
        ({0}, IndexError, "set"),
        ("a", TypeError, "str"),
        (slice(None, None, -1), ValueError, "greater than zero"),
        (slice(None, None, 0), ValueError, "greater than zero"),
        (slice(1.0, 2), TypeError, "indices must be integers|float"),
        (torch.tensor([1.0]), IndexError, "float32 cannot be an index"),
        (torch.tensor([1], dtype=torch.int8), IndexError, "int8 cannot be an index"),
        (torch.tensor([0, 7]), IndexError, "index 7 is out of bounds for dimension 0 with size 2"),
        (torch.tensor([-3]), IndexError, "index -3 is out of bounds"),
        (torch.tensor([True, False, True]), IndexError, r"mask of shape \(3,\)"),
        ((torch.tensor([0, 1]), torch.tensor([0, 1, 2])), IndexError, r"shapes \(2,\), \(3,\)"),
        (numpy.bool_(True), IndexError, "bool"),
    ],
    ids=str,
)
def test_a_wrong_key_is_refused_in_reading_and_in_writing(key, kind, words):
    x = ramp(2, 3, requires_grad=False)
    with pytest.raises(kind, match=words):
        x[key]
    with pytest.raises(kind, match=words):
        x[key] = 1.0
    assert x.tolist() == ramp(2, 3).tolist()
    assert x._version == 0


def test_a_0d_tensor_has_nothing_to_select():
    for key in (0, WHOLE, torch.tensor([0])):
        with pytest.raises(IndexError):
            torch.tensor(1.0)[key]
    assert torch.tensor(1.0)[...].item() == 1.0


def test_lists_of_sequences_are_read_as_tuples_with_a_warning():
    x = ramp(2, 3)
    with pytest.warns(UserWarning, match="read as a tuple"):
        part = x[[[0, 1], [1, 2]]]
    assert part.tolist() == x[[0, 1], [1, 2]].tolist()
    with pytest.warns(UserWarning, match="read as a tuple"):
        assert x[[slice(0, 1), 0]].shape == (1,)


def test_bytes_are_masks_with_a_warning():
    with pytest.warns(UserWarning, match="uint8"):
        part = ramp(2, 3)[torch.tensor([0, 1], dtype=torch.uint8)]
    assert part.tolist() == [[3.0, 4.0, 5.0]]


@pytest.mark.parametrize("key", ADVANCED_KEYS[3:], ids=str)
def test_derivatives_of_every_order_by_index(key):
    x = ramp(2, 3, 4)
    assert gradcheck(lambda x: x[key] * x[key], (x,))
    assert gradgradcheck(lambda x: x[key] * x[key], (x,))


def test_repeated_indices_add_up_their_gradients():
    x = ramp(4, 2)
    index = torch.tensor([1] * 30 + [3] * 10 + [-1])
    assert gradient_of(x[index], x) == [[0, 0], [30, 30], [0, 0], [11, 11]]
    assert gradient_of(x[index, torch.zeros(41, dtype=torch.int64)], x)[1] == [30, 0]


def test_an_index_changed_since_is_found_out():
    x, index = ramp(3), torch.tensor([0, 2])
    y = x[index]
    index.add_(-1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


# Assignment: values ------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [*BASIC_KEYS, *ADVANCED_KEYS[3:]], ids=str)
@pytest.mark.parametrize("tracked", [True, False])
def test_assigning_a_number_changes_what_numpy_would_change(key, tracked):
    y = computed(2, 3, 4)[0] if tracked else ramp(2, 3, 4, requires_grad=False)
    expected = y.detach().numpy().copy()
    y[key] = 7.0
    expected[key] = 7.0
    assert y.detach().numpy().tolist() == expected.tolist()
    assert y._version == 1


def test_values_are_broadcast_cast_and_freed_of_leading_ones():
    y = torch.zeros(2, 3)
    y[0] = torch.tensor([[[1, 2, 3]]])
    y[:, 1] = torch.tensor(9.0, dtype=torch.float64)
    assert y.tolist() == [[1.0, 9.0, 3.0], [0.0, 9.0, 0.0]]
    y[torch.tensor([1])] = torch.ones(1, 1, 1, 3)
    assert y[1].tolist() == [1.0, 1.0, 1.0]


def test_bools_assign_all_or_nothing():
    y = torch.zeros(2)
    y[False] = 1.0
    assert y._version == 0
    y[True] = 1.0
    assert (y.tolist(), y._version) == ([1.0, 1.0], 1)


@pytest.mark.parametrize(
    ("key", "value", "kind", "words"),
    [
        (0, torch.ones(2), RuntimeError, r"\(2,\) cannot be broadcast to \(3,\)"),
        (0, torch.ones(2, 3), RuntimeError, "cannot be broadcast"),
        (
            [0, 1],
            torch.ones(4, dtype=torch.float64),
            RuntimeError,
            r"\(4,\) cannot be broadcast to \(2, 3\)",
        ),
        ([0], torch.ones(3, dtype=torch.float32), RuntimeError, "must be equal"),
        (0, [1.0, 2.0, 3.0], TypeError, "cannot assign a list"),
        (0, numpy.ones(3), TypeError, "cannot assign a ndarray"),
        (0, None, TypeError, "cannot assign a NoneType"),
        (0, 1j, RuntimeError, "cannot be converted"),
    ],
    ids=str,
)
@pytest.mark.parametrize("tracked", [True, False])
def test_a_refused_assignment_changes_nothing(key, value, kind, words, tracked):
    y = computed(2, 3)[0] if tracked else ramp(2, 3, requires_grad=False)
    before, node = y.tolist(), y.grad_fn
    with pytest.raises(kind, match=words):
        y[key] = value
    assert (y.tolist(), y._version) == (before, 0)
    assert y.grad_fn is node


def test_numbers_must_fit_integers():
    t = torch.zeros(2, dtype=torch.int8)
    for number in (300, 127.9, float("nan")):
        for key in (0, [0], ...):
            with pytest.raises(RuntimeError, match="without overflow"):
                t[key] = number
    t[0] = 1.7
    assert t.tolist() == [1, 0]
    byte = torch.zeros(1, dtype=torch.uint8)
    byte[0] = -1
    assert byte.item() == 255


def test_a_mask_takes_a_0d_value_of_another_dtype():
    y = torch.zeros(3)
    y[torch.tensor([True, False, True])] = torch.tensor(2, dtype=torch.float64)
    assert y.tolist() == [2.0, 0.0, 2.0]


def test_copying_within_memory_that_overlaps_in_part_is_refused():
    y = torch.arange(5.0)
    with pytest.raises(RuntimeError, match="overlap in part"):
        y[1:] = y[:-1]
    y[:2] = y[3:]
    y[...] = y
    assert y.tolist() == [3.0, 4.0, 2.0, 3.0, 4.0]


def test_expanded_memory_is_not_written():
    wide = torch.zeros(3, 1).expand(3, 4)
    with pytest.raises(RuntimeError, match="clone"):
        wide[0] = 1.0
    wide[:, 0] = 1.0  # no two elements of this part share a place
    assert wide.tolist() == [[1.0] * 4] * 3


# Assignment: versions and history ----------------------------------------------------------------


def test_versions_count_once_per_write_and_twice_for_slices_in_augmented_ones():
    a = torch.zeros(4)
    a[:0] = 1
    assert a._version == 1
    a[1:] += 1
    assert a._version == 3
    a[torch.tensor([0, 1])] += 1
    assert a._version == 4
    assert a.tolist() == [1.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize("key", [0, slice(0, 1), None, True])
def test_a_part_of_a_leaf_is_not_written(key):
    leaf = ramp(3)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        leaf[key] = 1.0
    with pytest.raises(RuntimeError, match="view of a leaf"):
        leaf[0:2][key] = 1.0
    assert (leaf.tolist(), leaf._version) == ([0.0, 1.0, 2.0], 0)
    with torch.no_grad():
        leaf[key] = 1.0
    assert leaf._version == 1
    assert leaf.grad_fn is None


@pytest.mark.parametrize("key", [..., (), WHOLE, [0], numpy.array([True, False, True])], ids=str)
def test_a_whole_leaf_is_not_written_either(key):
    leaf = ramp(3)
    with pytest.raises(RuntimeError, match=": a leaf"):
        leaf[key] = 1.0
    assert leaf._version == 0


def test_a_basic_write_is_a_copy_slices_on_the_base():
    y, leaf = computed(2, 3)
    w = ramp(3)
    y[0] = w
    assert names(y) == ["CopySlices", "MulBackward0", "AccumulateGrad"]
    assert [node is not None for node, _ in y.grad_fn.next_functions] == [True, True]
    weights = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    gradients = torch.autograd.grad((y * weights).sum(), [leaf, w])
    assert gradients[0].tolist() == [[0.0] * 3, [3.0, 4.0, 5.0]]
    assert gradients[1].tolist() == [0.0, 1.0, 2.0]


def test_whole_and_indexed_writes_replace_the_node_itself():
    for key, name in ((..., "CopyBackwards"), (WHOLE, "CopyBackwards"), ([0], "IndexPutBackward0")):
        y, leaf = computed(2, 3)
        y[key] = ramp(3)
        assert names(y)[:2] == [name, "MulBackward0"]
    y, leaf = computed(2, 3)
    y[:] = 2.0
    assert gradient_of(y, leaf) == [[0.0] * 3] * 2


def test_a_base_without_history_gets_one_from_the_value():
    base, w = torch.zeros(3, dtype=torch.float64), ramp(2)
    before = base[1:]
    base[1:] = w
    assert base.requires_grad
    assert gradient_of(base * 2, w) == [2.0, 2.0]
    assert gradient_of(before * before, w) == [0.0, 2.0]  # an older view follows
    counts = torch.zeros(3, dtype=torch.int64)
    counts[1:] = w
    assert not counts.requires_grad


def test_views_of_every_age_follow_a_write():
    y, leaf = computed(3, 2)
    column, row = y[:, 0], y[1]
    y[1] = ramp(2)
    assert column.tolist() == [0.0, 0.0, 4.0]
    assert names(column)[0] == "AsStridedBackward0"
    assert gradient_of(column, leaf) == [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    assert gradient_of(row, leaf) == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("view", ["rows", "columns", "transposed"])
def test_writing_to_a_part_of_a_view_reaches_its_base(view):
    leaf = ramp(3, 4)

    def program(leaf, w):
        y = leaf * 1
        part = {"rows": y[1:], "columns": y[:, 1:4], "transposed": y.T}[view]
        part[1] = w[: part.shape[1]]
        part[:, 0] *= 2
        return y * part[0, 0]

    assert gradcheck(program, (leaf, ramp(4)))
    assert gradgradcheck(program, (leaf, ramp(4)))


@pytest.mark.parametrize("key", [1, slice(0, 2), (slice(1, None), 0), (Ellipsis, None), [0, 0]])
def test_derivatives_of_every_order_through_assignment(key):
    def program(x, w):
        y = x * x
        y[key] = w.sum() * 2
        y[0] = y[1].clone() * w
        return y * y

    assert gradcheck(program, (ramp(2, 3), ramp(3) + 1))
    assert gradgradcheck(program, (ramp(2, 3), ramp(3) + 1))


def test_augmented_assignment_is_recorded_once():
    y, leaf = computed(3, 2)
    y[1] += 1.0
    assert names(y) == ["CopySlices", "MulBackward0", "AccumulateGrad"]
    assert gradient_of(y, leaf) == [[1.0, 1.0]] * 3


def test_writing_a_detached_part_over_itself_cuts_its_gradient():
    y, leaf = computed(3)
    y[1:] = y[1:].detach()
    assert gradient_of(y, leaf) == [1.0, 0.0, 0.0]


def test_a_real_source_of_a_complex_part_gets_the_real_part():
    y = torch.zeros(3, dtype=torch.complex128, requires_grad=True) * 1
    w = ramp(2)
    y[1:] = w
    (g,) = torch.autograd.grad((y * (2 + 3j)).real.sum(), w)
    assert g.tolist() == [2.0, 2.0]
    with pytest.warns(UserWarning, match="imaginary"):
        w.detach()[0] = torch.tensor(1 + 2j)


def test_a_recorded_write_is_freed_with_its_graph():
    y, _ = computed(3)
    y[0] = 1.0
    total = y.sum()
    total.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        total.backward()


def test_retained_gradients_follow_the_written_tensor():
    y, leaf = computed(3)
    y.retain_grad()
    y[0] = 5.0
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2.0, 2.0, 2.0]
    assert leaf.grad.tolist() == [0.0, 2.0, 2.0]


def test_views_that_forbid_recorded_writes_forbid_assignment():
    y, _ = computed(2, 3)
    row = y.unbind()[0]
    with pytest.raises(RuntimeError, match="several views"):
        row[0] = 1.0
    with torch.no_grad():
        made = y[0]
    with pytest.raises(RuntimeError, match="no_grad"):
        made[0] = 1.0
    plain = torch.zeros(2, 3).unbind()[0]
    plain[0] = 1.0
    assert plain.tolist() == [1.0, 0.0, 0.0]


def test_inference_tensors_are_written_in_inference_mode_only():
    with torch.inference_mode():
        t = torch.zeros(3)
        t[0] = 1.0
    assert t.tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="inference"):
        t[0] = 2.0


def test_tangents_go_where_the_values_go():
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(ramp(3, requires_grad=False), torch.ones(3, dtype=torch.float64))
        y = x * 2
        y[0] = x[1] * 5
        y[[2]] = 1.0
        assert forward_ad.unpack_dual(y).tangent.tolist() == [5.0, 2.0, 0.0]
        assert forward_ad.unpack_dual(x[[1, 1]]).tangent.tolist() == [1.0, 1.0]


def test_the_node_of_an_assignment_knows_its_line():
    y, _ = computed(3)
    y[0] = 1.0
    assert y.grad_fn.origin.source == "y[0] = 1.0"


# index_put ---------------------------------------------------------------------------------------


def test_index_put_overwrites_or_adds():
    x, rows = torch.zeros(3, 2), torch.tensor([0, 0, 2])
    added = x.index_put((rows,), torch.tensor(1.0), accumulate=True)
    assert added[:, 0].tolist() == [2.0, 0.0, 1.0]
    assert x.index_put((rows,), torch.tensor(1.0))[:, 0].tolist() == [1.0, 0.0, 1.0]
    assert x.sum().item() == 0.0
    assert x.index_put_((rows,), torch.tensor(1.0)) is x


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_index_put_has_derivatives_of_every_order(accumulate, count):
    indices = tuple(torch.tensor(i) for i in ([0, 1], [1, 1], [0, 1]))[:count]

    def program(x, values):
        return (x * x).index_put(indices, values * values, accumulate)

    shape = torch.zeros(2, 2, 2)[indices].shape
    assert gradcheck(program, (ramp(2, 2, 2), ramp(*shape)))
    assert gradgradcheck(program, (ramp(2, 2, 2), ramp(*shape)))


def test_index_put_refuses_before_it_writes():
    x, value = torch.zeros(2), torch.tensor(1.0)
    for indices, kind in (
        (torch.tensor([0]), TypeError),
        (([0],), TypeError),
        ((), RuntimeError),
        ((torch.tensor([0]),) * 2, IndexError),
        ((torch.tensor([0, 5]),), IndexError),
    ):
        for accumulate in (True, False):
            with pytest.raises(kind):
                x.index_put_(indices, value, accumulate)
    with pytest.raises(TypeError):
        x.index_put_((torch.tensor([0]),), 1.0)
    assert (x.tolist(), x._version) == ([0.0, 0.0], 0)


@given(data=st.data())
def test_adding_at_indices_is_what_numpy_adds(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    count = data.draw(st.integers(1, len(shape)))
    length = data.draw(st.sampled_from([1, 3, 40]))
    indices = tuple(
        numpy.array(data.draw(st.lists(st.integers(-n, n - 1), min_size=length, max_size=length)))
        for n in shape[:count]
    )
    expected = numpy.zeros(shape)
    values = numpy.arange(expected[indices].size, dtype=float).reshape(expected[indices].shape)
    numpy.add.at(expected, indices, values)
    put = torch.zeros(shape, dtype=torch.float64).index_put(
        tuple(map(torch.from_numpy, indices)), torch.from_numpy(values), accumulate=True
    )
    assert put.tolist() == expected.tolist()


# 0-d index tensors, and one index tensor ---------------------------------------------------------

NUMBERS = [torch.tensor(1), torch.tensor(-1), torch.tensor(2, dtype=torch.int32)]


@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("key", [lambda n: n, lambda n: (n, n), lambda n: (n, slice(1, None))])
def test_0d_index_tensors_are_the_ints_that_they_hold(key, number):
    found, there = key(number), key(int(number))
    x, leaf = computed(3, 4)
    assert torch.equal(x[found], x[there])
    assert names(x[found]) == names(x[there])
    other, other_leaf = computed(3, 4)
    x[found] += 2 * x[found]
    other[there] += 2 * other[there]
    assert torch.equal(x, other)
    assert names(x)[0] == names(other)[0]
    assert gradient_of(x, leaf) == gradient_of(other, other_leaf)


def test_0d_index_tensors_out_of_bounds_are_refused():
    x = torch.zeros(2, 3)
    for key in (torch.tensor(2), (torch.tensor(0), torch.tensor(3)), (torch.tensor(0),) * 3):
        with pytest.raises(IndexError):
            x[key]
        with pytest.raises(IndexError):
            x[key] = 1.0
    assert not x.any()


@pytest.mark.parametrize("value", [2.0, torch.tensor(2.0), torch.arange(3.0), torch.ones(1)[0]])
def test_writes_at_one_index_tensor_count_and_land(value):
    x, places = torch.zeros(5), torch.tensor([0, -1, 2])
    wanted = numpy.zeros(5, "f4")
    wanted[[0, -1, 2]] = value
    before = x._version
    x[places] = value
    assert x.tolist() == wanted.tolist()
    assert x._version == before + 1


def test_a_write_at_indices_out_of_bounds_writes_nothing():
    x = torch.zeros(5)
    with pytest.raises(IndexError, match="5"):
        x[torch.tensor([0, 5])] = 1.0
    assert not x.any()
    assert x._version == 0


def test_a_write_at_indices_on_the_written_memory_is_refused():
    memory = torch.arange(4)
    target = memory.view(torch.float64)
    with pytest.raises(RuntimeError):
        target[memory] = 1.0
    with pytest.raises(RuntimeError):
        target[memory[:2]] = target[1]
