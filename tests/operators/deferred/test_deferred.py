"""Conjugates and negatives that are put off: views that everybody reads right."""

import copy
import gc
import io
import pickle

import numpy
import pytest

import pullback as torch
from pullback.autograd import forward_ad as fw
from pullback.autograd import gradcheck, gradgradcheck
from pullback.operators.deferred import kernels


def matrix(rows=2, columns=3):
    numbers = torch.arange(rows * columns, dtype=torch.float64).reshape(rows, columns)
    return torch.complex(numbers - 2, (numbers * 3) % 5 - 1)


def test_a_conjugate_is_a_view_of_the_memory():
    z = torch.tensor([1 + 2j])
    w = z.conj()
    z.mul_(2)
    assert w.tolist() == [2 - 4j]
    assert w.is_conj()
    assert w._is_view()
    assert w._base is z
    assert w.data_ptr() == z.data_ptr()
    assert w.imag.is_neg()
    assert repr(w) == "tensor([2.-4.j])"


def test_twice_is_the_tensor_as_it_was():
    z = matrix()
    assert not z.conj().conj().is_conj()
    assert torch.equal(z.conj().conj(), z)
    assert not torch._neg_view(torch._neg_view(z)).is_neg()
    x = torch.ones(2)
    assert x.conj() is x


VIEWS = [
    lambda w: w[0],
    lambda w: w[:, 1:],
    lambda w: w[..., None],
    lambda w: w.t(),
    lambda w: w.mT,
    lambda w: w.reshape(-1),
    lambda w: w.view(-1),
    lambda w: w.expand(4, 2, 3),
    lambda w: w.diagonal(),
    lambda w: w.unbind()[1],
    lambda w: w.split(1)[0],
    lambda w: w.movedim(0, 1),
    lambda w: w.detach(),
    lambda w: w.as_strided((2,), (2,)),
    lambda w: w.select(0, 1).narrow(0, 1, 2),
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("bits", ["conj", "neg", "both"])
def test_views_keep_what_is_put_off(view, bits):
    z = matrix()
    w = torch._neg_view(z) if bits != "conj" else z
    w = w.conj() if bits != "neg" else w
    made = view(w)
    assert made.is_conj() is (bits != "neg")
    assert made.is_neg() is (bits != "conj")
    assert made.untyped_storage().data_ptr() == z.untyped_storage().data_ptr()
    wanted = view(w.clone())
    assert torch.equal(made, wanted)
    z.mul_(3j)
    assert torch.equal(made, view(w.clone()))


def test_parts_of_conjugates_are_views_too():
    z = matrix()
    w = z.conj()
    assert w.real.data_ptr() == z.data_ptr()
    assert not w.real.is_neg()
    assert w.imag.data_ptr() == z.imag.data_ptr()
    assert torch.equal(w.imag, -z.imag)
    assert not w.imag.resolve_neg().is_neg()
    assert not torch._neg_view(z).conj().imag.is_neg()
    assert torch._neg_view(z).real.is_neg()


def test_arithmetic_reads_the_conjugate_and_gives_plain_tensors():
    z = matrix()
    w, plain = z.conj(), z.conj_physical()
    for function in (torch.sin, torch.abs, lambda t: t * t, lambda t: t + z, torch.sum):
        made = function(w)
        assert not made.is_conj()
        assert torch.equal(made, function(plain))
    assert not w.clone().is_conj()
    assert not w.resolve_conj().is_conj()
    assert z.resolve_conj() is z
    assert w.contiguous() is w
    assert not w.t().contiguous().is_conj()
    assert w.tolist() == plain.tolist()
    assert w[0, 0].item() == plain[0, 0].item()


WRITES = [
    lambda w: w.mul_(2j),
    lambda w: w.add_(1 + 1j),
    lambda w: w.copy_(torch.full_like(w, 3 + 4j)),
    lambda w: w.fill_(1j),
    lambda w: w.zero_(),
    lambda w: w[0].mul_(2j),
    lambda w: w.imag.mul_(2),
    lambda w: w.__setitem__((0, 1), 5j),
    lambda w: w.__setitem__(0, torch.arange(3) + 1j),
    lambda w: w.t().add_(1j),
    lambda w: w.sin_(),
    lambda w: torch.mul(w, 2, out=w),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("lazily", [torch.conj, torch._neg_view])
def test_writes_go_to_the_memory_with_their_history(write, lazily):
    z = matrix()
    w, plain = lazily(z), lazily(z).clone()
    version = z._version
    write(w)
    write(plain)
    assert torch.equal(w, plain)
    assert torch.equal(lazily(z), plain)
    assert z._version > version


@pytest.mark.parametrize("write", WRITES[:-1])
def test_gradients_follow_writes_through_conjugates(write):
    def of(lazy):
        leaf = matrix().requires_grad_()
        z = leaf * 1
        if lazy:
            write(z.conj())
        else:
            w = z.conj_physical()
            write(w)
            z = w.conj_physical()
        (z * torch.arange(6).reshape(2, 3) * (1 + 2j)).real.sum().backward()
        return leaf.grad

    assert torch.allclose(of(True), of(False))


def test_a_conjugate_has_the_history_of_its_base_after_writes():
    leaf = matrix().requires_grad_()
    z = leaf * 1
    w = z.conj()
    z.mul_(3j)
    assert w.grad_fn.name() == "ConjBackward0"
    w.sum().real.backward()
    assert torch.equal(leaf.grad, torch.full_like(leaf, -3j))


def test_what_cannot_show_bits_refuses():
    w = matrix().conj()
    for call in (w.numpy, lambda: numpy.asarray(w), lambda: torch.view_as_real(w)):
        with pytest.raises(RuntimeError, match=r"resolve_conj\(\)"):
            call()
    with pytest.raises(RuntimeError, match=r"resolve_conj\(\)"):
        w.view(torch.float64)
    with pytest.raises(RuntimeError, match=r"resolve_neg\(\)"):
        w.imag.numpy()


# Products ----------------------------------------------------------------------------------------


def products():
    a, b = matrix(3, 4), matrix(3, 2)
    p, q = a.numpy(), b.numpy()
    return [
        (lambda: a.mH @ b, p.conj().T @ q),
        (lambda: torch.mm(b.H, a), q.conj().T @ p),
        (lambda: a.conj().mT @ b.conj(), p.conj().T @ q.conj()),
        (lambda: a @ a.mH, p @ p.conj().T),
        (lambda: a.mT @ b.conj(), p.T @ q.conj()),
        (lambda: a.mT.contiguous() @ b.mT.contiguous().mH, p.T @ q.conj()),
    ]


@pytest.mark.parametrize("index", range(6))
@pytest.mark.parametrize("scipy", [True, False])
def test_products_of_conjugates_are_those_of_copies(index, scipy, monkeypatch):
    if not scipy:
        monkeypatch.setattr(kernels, "_routines", lambda: None)
    run, wanted = products()[index]
    numpy.testing.assert_allclose(run().numpy(), wanted)


def test_a_hermitian_product_makes_no_copy_of_its_factors(monkeypatch):
    pytest.importorskip("scipy")
    a, b = matrix(3, 4), matrix(3, 2)
    a.mH @ b
    read = []
    monkeypatch.setattr(numpy, "conjugate", lambda *args: read.append(args))
    a.mH @ b
    assert not read


def test_derivatives_through_views_and_products_agree_with_differences():
    a, b = matrix(2, 2).requires_grad_(), matrix(2, 2).requires_grad_()
    assert gradcheck(lambda a, b: a.mH @ b, (a, b), check_forward_ad=True)
    assert gradgradcheck(lambda a, b: a.mH @ b, (a, b))
    assert gradcheck(lambda a: a.conj().imag[0] * 2, a, check_forward_ad=True)
    assert gradcheck(lambda a: torch._neg_view(a) * a, a, check_forward_ad=True)


# Transforms --------------------------------------------------------------------------------------


def test_tangents_keep_the_bits_of_their_primals():
    z, t = torch.ones(2, dtype=torch.cdouble), torch.ones(2, dtype=torch.cdouble)
    with fw.dual_level():
        assert fw.unpack_dual(fw.make_dual(z, t)).tangent is t
        other = fw.unpack_dual(fw.make_dual(z.conj(), t)).tangent
        assert other is not t
        assert torch.equal(other, t)
        same = t.conj()
        assert fw.unpack_dual(fw.make_dual(z.conj(), same)).tangent is same
        made = fw.unpack_dual(fw.make_dual(z, t * 1j).conj())
        assert made.primal.is_conj()
        assert made.tangent.is_conj()
        assert made.tangent.tolist() == [-1j, -1j]


def test_vmap_puts_off_too():
    z = matrix()
    inside = []
    made = torch.vmap(lambda t: (inside.append(t.conj().is_conj()), t.conj())[1])(z)
    assert inside == [True]
    assert made.is_conj()
    assert torch.equal(made, z.conj())
    assert torch.equal(torch.vmap(lambda t: t.conj() * t)(z), z.conj() * z)


# Copies ------------------------------------------------------------------------------------------


def test_copies_say_what_they_say_in_torch():
    z = matrix()
    w = z.conj()
    assert copy.copy(w).is_conj()
    assert not copy.deepcopy(w).is_conj()
    buffer = io.BytesIO()
    torch.save(w, buffer)
    buffer.seek(0)
    for one in (copy.copy(w), copy.deepcopy(w), pickle.loads(pickle.dumps(w)), torch.load(buffer)):
        assert torch.equal(one, w)
    parameter = torch.nn.Parameter(w)
    assert torch.equal(parameter, w)
    with torch.no_grad():
        parameter.add_(1)
    assert isinstance(parameter, torch.nn.Parameter)


def test_a_gradient_that_is_put_off_is_added_to():
    x = torch.ones(2, dtype=torch.cdouble, requires_grad=True)
    x.grad = torch.tensor([1j, 2j], dtype=torch.cdouble).conj()
    (x * x).sum().real.backward()
    assert x.grad.tolist() == [2 - 1j, 2 - 2j]


def test_no_cycles():
    matrix().conj().sum()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(50):
            leaf = matrix().requires_grad_()
            leaf.conj().imag[0].sum().backward()
        del leaf
        assert len(gc.get_objects()) - before < 60
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "program",
    [
        lambda z: (z * z.conj()).real,
        lambda z: (z.conj() * 2).abs(),
        lambda z: (z.sum().conj() * z.sum()).real,
        lambda z: z.conj().imag,
        lambda z: z.conj().abs(),
        lambda z: torch.view_as_real(z.conj().resolve_conj()).sum() * 2,
        lambda z: z.conj().imag._neg_view() * 3,
    ],
)
def test_number_of_no_dimensions_has_the_gradient_of_one_in_a_vector(program):
    """Its gradient is a NumPy scalar on the way, which rules must take as they take arrays."""
    number = torch.tensor(1 + 2j, dtype=torch.complex128, requires_grad=True)
    vector = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)
    program(number).backward()
    program(vector).sum().backward()
    assert number.grad.shape == ()
    assert number.grad.item() == pytest.approx(vector.grad[0].item())
    assert torch.func.grad(program)(number.detach()).item() == pytest.approx(number.grad.item())


def test_tangent_is_put_off_no_more_than_its_tensor_is():
    """A view as real numbers reaches the tangent, too."""

    def program(z):
        return torch.view_as_real(torch.resolve_conj(z * 1j))

    z, dz = torch.tensor([1 + 2j]), torch.tensor([3 + 4j])
    assert torch.func.jvp(program, (z,), (dz,))[1].tolist() == [[-4.0, 3.0]]
    assert torch.func.jvp(program, (z,), (dz.conj(),))[1].tolist() == [[4.0, 3.0]]
    assert torch.func.jvp(torch.view_as_real, (z,), (dz.conj(),))[1].tolist() == [[3.0, -4.0]]
    z = torch.rand(2, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(program, z, check_forward_ad=True, fast_mode=True)


def test_write_to_a_copy_leaves_the_tangent_that_was_given():
    """It was conjugated twice, and so the very memory of the user's."""
    z, dz = torch.tensor([1 + 2j]), torch.tensor([3 + 4j])
    _, tangent = torch.func.jvp(lambda z: z.clone().mul_(1j), (z,), (dz,))
    assert tangent.tolist() == [-4 + 3j]
    assert dz.tolist() == [3 + 4j]
