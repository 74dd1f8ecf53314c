"""Conjugates and negatives that are put off, against torch: bits, values, memory, history."""

import pytest

import pullback

torch = pytest.importorskip("torch")

MADE = """
z = lib.tensor([[1 + 2j, 3 - 1j], [0.5j, 2 + 0j]], dtype=lib.complex128)
zr = z.clone().requires_grad_()
w, n, r = z.conj(), z.conj().imag, lib.ones(2)
"""

ASKED = """
    w.is_conj() w.is_neg() n.is_neg() n.is_conj() w.real.is_neg() w.real.data_ptr()==z.data_ptr()
    n.data_ptr()-z.data_ptr() w.conj().is_conj() w[0].is_conj() w[:,1:].is_conj() w.t().is_conj()
    w.mH.is_conj() z.mH.is_conj() z.H.is_conj() z.adjoint().is_conj() (w*2).is_conj()
    w.clone().is_conj() w.contiguous().is_conj() w.t().contiguous().is_conj()
    w.resolve_conj().is_conj() w.resolve_conj().data_ptr()==z.data_ptr()
    z.resolve_conj().data_ptr()==z.data_ptr() n.resolve_neg().is_neg() w.detach().is_conj()
    w.data.is_conj() w.reshape(4).is_conj() w.flatten().is_conj() w.view(4).is_conj()
    w.expand(2,2,2).is_conj() lib.conj(r).is_conj() lib._neg_view(z).is_neg()
    lib._neg_view(r).is_neg() lib._neg_view(lib._neg_view(r)).is_neg()
    lib._neg_view(z).conj().is_conj() lib._neg_view(z).conj().is_neg()
    lib._neg_view(z).real.is_neg() lib._neg_view(z).conj().imag.is_neg()
    w.conj_physical().is_conj() zr.conj().grad_fn.name() zr.conj().imag.grad_fn.name()
    zr.conj()[0].grad_fn.name() w._is_view() w._base.is_conj() (w@z).is_conj()
    lib.zeros_like(w).is_conj() w.to(lib.complex64).is_conj() w.stride() w.is_contiguous()
    w.storage_offset() n.storage_offset() (-w).is_conj() w.neg().is_neg() list(w)[0].is_conj()
    lib.stack([w,w]).is_conj() w.sum().is_conj() w.diagonal().is_conj() w.unbind()[0].is_conj()
    w.split(1)[0].is_conj() w.T.is_conj() n.t().is_neg() n[0].is_neg() (n*1).is_neg()
    w.tolist() n.tolist() w[0,0].item() str(w) repr(n) (w@z).tolist() (z.mH@z).tolist()
    w.unsqueeze(0).is_conj() w[None].is_conj() w[...,0].is_conj() w[[0]].is_conj()
    w.movedim(0,1).is_conj() w.index_select(0,lib.tensor([0])).is_conj() w.new_zeros(2).is_conj()
"""


def evaluated(lib, text):
    names = {"lib": lib}
    exec(MADE, names)
    return eval(text, names)


@pytest.mark.parametrize("text", ASKED.split())
def test_what_is_asked_of_conjugates_is_answered_alike(text):
    assert evaluated(pullback, text) == evaluated(torch, text)


@pytest.mark.parametrize(
    "text",
    [
        *("w.numpy()", "n.numpy()", "lib.view_as_real(w)", "w.view(lib.float64)"),
        "zr.conj().mul_(2)",
    ],
)
def test_what_torch_refuses_is_refused_with_its_type(text):
    with pytest.raises(RuntimeError):
        evaluated(torch, text)
    with pytest.raises(RuntimeError):
        evaluated(pullback, text)


PROGRAMS = [
    "z.mul_(2); print(w, n)",
    "w.mul_(2j); print(z, w, w.is_conj())",
    "w[0] = 5j; print(z)",
    "w.imag.add_(1); print(z)",
    "n.mul_(3); print(z, n)",
    "w.copy_(z.clone()); print(z)",
    "w.fill_(1j); print(z, w)",
    "w.zero_(); print(z, w)",
    "b = zr * 1; b.conj().mul_(2j); (b * lib.arange(4).reshape(2, 2)).real.sum().backward()\n"
    "print(zr.grad)",
    "b = zr * 1; c = b.conj(); b.mul_(3j); c.sum().real.backward(); print(c, zr.grad)",
    "y = zr.conj(); y.retain_grad(); (y * y).sum().real.backward(); print(y.grad, zr.grad)",
    "b = zr * 1; b.conj()[0].imag.mul_(2); b.abs().sum().backward(); print(zr.grad)",
    "(zr.mH @ zr).abs().sum().backward(); print(zr.grad)",
    "g, = lib.autograd.grad((zr.conj() * zr).real.sum(), zr, create_graph=True)\n"
    "g.abs().sum().backward(); print(zr.grad)",
    "print(lib.func.vmap(lambda t: t.conj())(z).is_conj(), lib.func.vmap(lib.conj)(z) * z)",
    "fw = lib.autograd.forward_ad\n"
    "with fw.dual_level(): print(*fw.unpack_dual(fw.make_dual(z, z * 2).conj().imag))",
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # of torch's own making
def test_programs_print_the_same(program, capsys):
    said = []
    for lib in (pullback, torch):
        names = {"lib": lib}
        exec(MADE + program, names)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
