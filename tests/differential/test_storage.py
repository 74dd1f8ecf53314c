"""Storages as programs, run by both libraries."""
# ruff: noqa: E501 (programs, as users write them in one line)

import numpy
import pytest

import pullback
from tests.differential.printed import agree

torch = pytest.importorskip("torch")

PROGRAMS = {
    "deep copies share as before": """
        import copy
        a = torch.zeros(3); z = torch.zeros(2, dtype=torch.complex64)
        w = copy.deepcopy([a, a.untyped_storage(), a.storage(), a[1:]]); w[3].add_(1)
        print(w[0], w[1].data_ptr() == w[0].data_ptr(), w[2].tolist(), a)
        w = copy.deepcopy([a.storage(), a.untyped_storage(), a]); w[2].add_(1); print(w[0].tolist(), w[1].data_ptr() == w[2].data_ptr())
        w = copy.deepcopy([z.real, z.storage(), z]); w[0].add_(1); print(w[2], w[1].tolist())
        w = copy.deepcopy([a.storage(), a.storage()]); w[0][0] = 5; print(w[1][0], copy.deepcopy(a.storage()).data_ptr() != a.data_ptr())
    """,
    "tensors on a storage": """
        for make in (torch.tensor, torch.as_tensor, torch.asarray, torch.FloatTensor, torch.Tensor, torch.ones(1).new, torch.ones(1).new_tensor):
            for storage in (lambda t: t.storage(), lambda t: t[2:].storage()):
                a = torch.arange(4.0); b = make(storage(a)); b[0] = 9; print(a, b.dtype, b.shape, b.data_ptr() == a.data_ptr(), b.requires_grad)
        a = torch.arange(4.0); u = a.untyped_storage()
        for make in (torch.FloatTensor, torch.Tensor, torch.DoubleTensor, torch.ByteTensor, torch.ones(1).new, torch.ones(1).double().new):
            print(make(u), make(u).data_ptr() == a.data_ptr())
        for kind in (None, torch.float32, torch.float64, torch.int16): print(torch.tensor(u, dtype=kind), torch.as_tensor(u, dtype=kind).data_ptr() == a.data_ptr())
        print(torch.tensor([a.storage()]))
    """,
    "tensor of a storage of another dtype": "torch.tensor(torch.arange(4.0).storage(), dtype=torch.float64)",
    "class of tensors on a storage of another dtype": "torch.LongTensor(torch.arange(4.0).storage())",
    "new on a storage of another dtype": "torch.ones(1).double().new(torch.arange(4.0).storage())",
    "bytes of a tensor": """
        s = torch.arange(4.0).untyped_storage(); print(s[0], s[6], s[-1], len(s), s.size(), s.nbytes(), s[4:7].tolist(), s)
        print(s.tolist(), s.element_size(), s.device, s.is_cuda, s.is_shared(), s.resizable(), list(s)[:3], s.type(), s.bool())
    """,
    "writes are seen": """
        x = torch.zeros(2); s = x[1:].untyped_storage(); s[3] = 63; s[2] = 128; print(x); s.fill_(0); print(x)
        s.copy_(torch.ones(2).untyped_storage()); print(x, s == x.untyped_storage(), s == x.clone().untyped_storage(), hash(s) == hash(x.untyped_storage()))
        s.copy_(torch.ones(3).untyped_storage())
    """,
    "strides keep the memory": """
        x = torch.arange(6.0).reshape(2, 3).t(); print(x.storage().tolist(), x[1:].storage_offset(), x.untyped_storage().data_ptr() == x.t().data_ptr())
    """,
    "typed": """
        t = torch.arange(4.0).storage(); print(t, len(t), t[1], t[-1], t.dtype, t.nbytes(), t.element_size(), t.size(), t.type(), t.device)
        t[0] = 9; t[1:3] = 5; print(t.tolist()); t.fill_(2); print(t.tolist(), t.int(), t.double().dtype, t.clone() == t, t == t, t.untyped().nbytes())
        print(t.cpu() is t, t.copy_(torch.FloatStorage([4, 5, 6, 7])).tolist(), torch.is_storage(t), torch.is_storage(t.untyped()), torch.ones(2)._typed_storage())
        t[9]
    """,
    "typed with a wrong index": "torch.arange(4.0).storage()['a']",
    "typed is not sliced": "torch.arange(4.0).storage()[1:2]",
    "older classes": """
        print(torch.FloatStorage(3).size(), torch.FloatStorage([1, 2, 3]), torch.FloatStorage.dtype, isinstance(torch.FloatStorage([1.0]), torch.FloatStorage))
        print(isinstance(torch.FloatStorage([1.0]), torch.DoubleStorage), torch.BoolStorage([True]), torch.ComplexFloatStorage([1j])[0], torch.BFloat16Storage([1.0])[0])
        print(torch.FloatStorage([1, 2]).pickle_storage_type(), torch.IntStorage([1, 2]).float(), torch.TypedStorage([1, 2], dtype=torch.float64))
        torch.FloatStorage(2.5)
    """,
    "no such class": "torch.NonsenseStorage",
    "from buffers": """
        print(torch.FloatStorage.from_buffer(b"\\x00\\x00\\x80?\\x00\\x00\\x00@", "little"), torch.UntypedStorage.from_buffer(b"abcd", byte_order="native", dtype=torch.int8).tolist())
        print(torch.UntypedStorage.from_buffer(b"\\x00\\x01\\x00\\x02", byte_order="big", dtype=torch.int16).tolist())
        s = torch.UntypedStorage([0, 0, 128, 63]); s.byteswap(torch.float32); print(s.tolist(), torch.UntypedStorage(4).fill_(3).tolist(), torch.UntypedStorage([1, 2]).clone().tolist())
    """,
    "set_": """
        x = torch.FloatStorage([1, 2, 3]); y = torch.tensor([]).set_(x); print(y); y[0] = 7; print(x[0], x.data_ptr() == y.data_ptr())
        print(torch.ones(3).set_(), torch.ones(3).set_(torch.ones(4)), torch.ones(3).set_(torch.arange(6.0).storage(), 1, (2, 2), (2, 1)))
        z = torch.ones(3).set_(torch.arange(6.0).untyped_storage(), 1, (2, 2), (2, 1)); print(z, z.storage_offset(), z.stride(), z._version)
        print(torch.ones(3).set_(torch.arange(6.0).storage()), torch.ones(3).set_(torch.arange(6.0).untyped_storage(), 1, (3,)))
        print(torch.ones(3).set_(torch.arange(6.0), 2, (2,), (2,)).tolist(), y.resize_(2).storage().size(), y.resize_(3))
        torch.ones(3).set_(torch.arange(6).storage())
    """,
    "a storage grows": "s = torch.ones(3).untyped_storage(); s.resize_(20); print(s.size(), s.tolist()[:12])",
    "a tensor grows with its storage": """
        x = torch.arange(2.0); x.untyped_storage().resize_(16); print(x, x.untyped_storage().nbytes()); print(x.resize_(4)[:2])
    """,
    "meta": """
        x = torch.ones(2, device="meta"); print(x.data_ptr(), x.untyped_storage(), x.untyped_storage().data_ptr(), x.untyped_storage().nbytes())
        x.untyped_storage()[0]
    """,
    "copies": """
        import copy, pickle
        s = torch.FloatStorage([1, 2]); print(copy.copy(s).tolist(), copy.deepcopy(s).data_ptr() == s.data_ptr(), copy.deepcopy(s.untyped()).tolist())
    """,
    "data of another shape": """
        p = torch.ones(2, requires_grad=True); p.data = torch.ones(3, 4); print(p.shape); (p * 2).sum().backward(); print(p.grad.shape)
        x = torch.ones(2); x.data = torch.arange(3); print(x, x.storage_offset())
        w = torch.nn.Linear(2, 2); w.weight.data = torch.zeros(5, 2); w.bias.data = torch.zeros(5); print(w(torch.ones(2)).detach())
    """,
    "given back": """
        x = torch.arange(6.); v = x[2:]; n = x.untyped_storage().nbytes()
        x.untyped_storage().resize_(0)
        print(x.untyped_storage().nbytes(), v.untyped_storage().size(), len(v.untyped_storage()), x.untyped_storage().data_ptr(), x.shape, x._version)
        x.untyped_storage().resize_(n); x.fill_(3.); print(v, x.untyped_storage().nbytes(), x.untyped_storage()._cdata == v.untyped_storage()._cdata)
    """,
    "given back and gathered again before backward": """
        flat = torch.arange(12.); full = torch.empty(12); full.untyped_storage().resize_(0)
        full.untyped_storage().resize_(48); full.copy_(flat)
        w = full[:6].view(2, 3).detach().requires_grad_(); x = torch.ones(1, 3, requires_grad=True); y = (x @ w.t()).sum()
        full.untyped_storage().resize_(0); full.untyped_storage().resize_(48); full.data.copy_(flat * 2)
        y.backward(); print(w.grad, x.grad)
    """,
    "given back, older form": """
        s = torch.arange(6.).storage(); s.resize_(0); print(s.size()); s.resize_(6); print(s.size())
    """,
    "types": """
        print(torch.tensor([1.5, 2]).double().type(torch.Tensor).dtype, torch.tensor([1, 2]).type("torch.FloatTensor"), torch.tensor([1, 2]).type(torch.DoubleTensor))
    """,
}


@pytest.mark.parametrize("about", PROGRAMS)
def test_both_libraries_do_the_same(about):
    agree(PROGRAMS[about], warned=False)


def test_memory_under_a_tensor_cannot_go():
    x = pullback.arange(6.0)
    with pytest.raises(RuntimeError, match="cannot go"):
        x.untyped_storage().resize_(8)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_memory_of_a_numpy_array_is_not_given_back():
    array = numpy.arange(3.0)
    x = pullback.from_numpy(array)
    with pytest.raises(RuntimeError, match=r"clone\(\) the tensor first"):
        x.untyped_storage().resize_(0)
    assert array.tolist() == [0, 1, 2]


def test_files_and_shared_memory(tmp_path):
    path = str(tmp_path / "bytes")
    storage = pullback.UntypedStorage.from_file(path, True, 4)
    storage[1] = 7
    assert pullback.UntypedStorage.from_file(path, False, 4).tolist() == [0, 7, 0, 0]
    x = pullback.ones(2)
    assert x.untyped_storage().share_memory_().is_shared()
    assert x.is_shared()


def test_the_older_form_warns_once(monkeypatch):
    from pullback.core.process import warning_once

    monkeypatch.setattr(warning_once, "_given", set())
    with pytest.warns(UserWarning, match="untyped_storage"):
        pullback.ones(2).storage()
    pullback.ones(2).storage()


@pytest.mark.parametrize("lib", [pullback, torch])
def test_a_storage_is_counted_from_its_start(lib):
    """NumPy's ValueError came through"""
    storage = lib.zeros(4).untyped_storage()
    for offset, size, stride in [(-1, (2,), (1,)), (0, (2,), (-1,))]:
        with pytest.raises(RuntimeError):
            lib.empty(0).set_(storage, offset, size, stride)
    assert lib.empty(0).set_(storage, 5, (0,)).shape == (0,)
    assert storage.nbytes() == 16
    lib.empty(0).set_(storage, 5, (2,))  # grows, in both
    assert storage.nbytes() == 28
