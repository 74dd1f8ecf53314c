"""copy_, fill_ and zero_: what they write, what they cut off, whom they give gradients."""

import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck


def computed(*shape, dtype=torch.float64):
    leaf = torch.ones(shape, dtype=dtype, requires_grad=True)
    return leaf * 1, leaf


def test_copy_broadcasts_and_casts_into_the_target():
    t = torch.zeros(2, 3)
    assert t.copy_(torch.tensor([1, 2, 3])) is t
    assert t.tolist() == [[1.0, 2.0, 3.0]] * 2
    assert t.copy_(5).tolist() == [[5.0] * 3] * 2
    counts = torch.zeros(2, dtype=torch.int64).copy_(torch.tensor([1.7, -1.7]))
    assert counts.tolist() == [1, -1]
    assert t._version == 2


def test_copy_never_enlarges_its_target():
    t = torch.zeros(2, 3)
    for source in (torch.ones(1, 2, 3), torch.ones(4), torch.ones(3, 3)):
        with pytest.raises(RuntimeError, match="shape"):
            t.copy_(source)
    with pytest.raises(TypeError, match="Tensor"):
        t.copy_([1.0])
    assert t._version == 0


def test_copy_gives_zeros_to_the_overwritten_and_all_to_the_source():
    y, leaf = computed(2, 3)
    w = torch.ones(3, dtype=torch.float32, requires_grad=True)
    y.copy_(w)
    assert type(y.grad_fn).__name__ == "CopyBackwards"
    (y * 2).sum().backward()
    assert leaf.grad.tolist() == [[0.0] * 3] * 2
    assert w.grad.tolist() == [4.0] * 3
    assert w.grad.dtype is torch.float32


def test_copies_to_integers_are_not_recorded():
    w = torch.ones(2, requires_grad=True)
    assert not torch.zeros(2, dtype=torch.int64).copy_(w).requires_grad


@pytest.mark.parametrize("source", [torch.float64, torch.complex128])
def test_copy_between_real_and_complex_has_real_and_complex_gradients(source):
    other = torch.complex128 if source is torch.float64 else torch.float64
    x = torch.ones(2, dtype=source, requires_grad=True)

    def program(x):
        return torch.zeros(2, dtype=other).copy_(x) * 2

    if source is torch.complex128:
        with pytest.warns(UserWarning, match="imaginary"):
            y = program(x)
        (g,) = torch.autograd.grad(y.sum(), x)
        assert g.tolist() == [2, 2]
        return
    assert gradcheck(program, (x,))


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda t: t.zero_(), "ZeroBackward0"),
        (lambda t: t.fill_(2.0), "FillBackward2"),
        (lambda t: t.fill_(torch.tensor(2.0)), "FillBackward3"),
    ],
)
def test_filling_cuts_the_gradient_off(write, name):
    y, leaf = computed(3)
    write(y)
    assert type(y.grad_fn).__name__ == name
    y.sum().backward()
    assert leaf.grad.tolist() == [0.0] * 3
    y, leaf = computed(3)
    write(y[1:])
    assert type(y.grad_fn).__name__ == "CopySlices"
    y.sum().backward()
    assert leaf.grad.tolist() == [1.0, 0.0, 0.0]


def test_a_filler_gets_the_sum():
    def program(x, value):
        y = x * value
        y[:, 0].fill_(value * value)
        return torch.fill(x, value) * y

    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    value = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    assert gradcheck(program, (x, value))
    assert gradgradcheck(program, (x, value))


def test_fillers_are_single_values():
    t = torch.zeros(3)
    with pytest.raises(RuntimeError, match="0-d"):
        t.fill_(torch.ones(3))
    with pytest.raises(TypeError, match="number"):
        t.fill_("a")
    with pytest.raises(RuntimeError, match="without overflow"):
        t.fill_(1e300)
    assert t.fill_(float("inf")).tolist() == [float("inf")] * 3


@pytest.mark.parametrize("name", ["zero_", "fill_", "copy_"])
def test_leaves_are_spared_and_no_grad_spares_history(name):
    arguments = {"zero_": (), "fill_": (1.0,), "copy_": (torch.ones(2),)}[name]
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        getattr(leaf, name)(*arguments)
    assert leaf._version == 0
    with torch.no_grad():
        getattr(leaf, name)(*arguments)
    assert leaf._version == 1
    assert leaf.is_leaf


def test_expanded_memory_takes_one_number_but_no_tensor():
    for write in (lambda t: t.fill_(1.0), lambda t: t.zero_()):
        base, leaf = computed(1, 2)
        wide = base.expand(3, 2)
        for refused in (torch.ones(3, 2), torch.tensor(1.0)):
            with pytest.raises(RuntimeError, match="clone"):
                wide.copy_(refused)
        write(wide)
        assert wide._version == 1
        assert base.tolist() == wide[:1].tolist()
        (base.sum() + wide.sum()).backward()
        assert leaf.grad.tolist() == [[0.0, 0.0]]


def test_fill_diagonal_wraps_on_demand():
    tall = torch.zeros(7, 3).fill_diagonal_(1.0)
    assert tall.nonzero().tolist() == [[0, 0], [1, 1], [2, 2]]
    tall = torch.zeros(7, 3).fill_diagonal_(1.0, wrap=True)
    assert tall.nonzero().tolist() == [[0, 0], [1, 1], [2, 2], [4, 0], [5, 1], [6, 2]]
    cube = torch.zeros(2, 2, 2).fill_diagonal_(1.0)
    assert cube.nonzero().tolist() == [[0, 0, 0], [1, 1, 1]]
    with pytest.raises(RuntimeError, match="2 dimensions"):
        torch.zeros(3).fill_diagonal_(1.0)
    with pytest.raises(RuntimeError, match="equal"):
        torch.zeros(2, 2, 3).fill_diagonal_(1.0)


def test_zeroing_what_is_no_tensor_says_so():
    with pytest.raises(TypeError, match=r"zero_.*Tensor"):
        torch.zero_(2)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("other", [-2, "", [torch.zeros(2)]])
def test_what_is_loaded_into_a_tensor_must_be_one(other, assign):
    x = torch.ones(2)
    with pytest.raises(TypeError, match="`other` must be a Tensor"):
        x.module_load(other, assign=assign)
    assert x.tolist() == [1, 1]


def test_copies_between_tensors_alike_refuse_memory_that_was_made_read_only():
    z = torch.zeros(3)
    z.numpy().flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        z.copy_(torch.ones(3))
    assert z._version == 0
