"""Small programs of users, from corners that the families' own tests pass by, in both libraries."""
# ruff: noqa: E501 (programs, as users write them in one line)

import pytest

from tests.differential.printed import agree

pytest.importorskip("torch")

PROGRAMS = {
    "a buffer is a marked tensor of its data's class": """
        import copy, io
        nn = torch.nn
        class S(torch.Tensor): pass
        for data in (torch.ones(2), torch.ones(2, requires_grad=True), S(torch.ones(1)), nn.Buffer(torch.ones(1))):
            b = nn.Buffer(data, persistent=False)
            print(type(b).__name__, isinstance(b, nn.Buffer), isinstance(b, nn.Parameter), b.requires_grad, b.is_leaf, b.persistent, b.data_ptr() == data.data_ptr(), {"persistent", "_is_buffer"} <= set(vars(b)))
            print(isinstance(b + 1, nn.Buffer), isinstance(b.detach(), nn.Buffer), isinstance(data, nn.Buffer))
        m = nn.Module(); m.x = nn.Buffer(torch.ones(2)); m.y = nn.Buffer(torch.ones(2), persistent=False)
        print(m.x, list(m.state_dict()), [n for n, _ in m.named_buffers()], type(copy.deepcopy(m).y).__name__, list(copy.deepcopy(m).state_dict()))
        f = io.BytesIO(); torch.save(m, f); f.seek(0); r = torch.load(f, weights_only=False); print(isinstance(r.y, nn.Buffer), list(r.state_dict()))
        m.x = torch.zeros(2); print(isinstance(m.x, nn.Buffer), list(m.state_dict())); print(nn.Buffer(), issubclass(nn.Buffer, torch.Tensor))
        class Own(nn.Module):
            def register_buffer(self, name, value): super().register_buffer(name, value)
        own = Own(); own.z = nn.Buffer(torch.ones(2)); print(own.z)
    """,
    "what an indexing node was indexed with": """
        a = torch.ones(2, 3, 2, requires_grad=True); i = torch.tensor([0, 1]); m = torch.tensor([True, False])
        for key in ((slice(None), i), (i,), (i, i), (i, slice(None), i), (i, i, i), (m,), (slice(None), slice(None), m), (Ellipsis, i)):
            print(a[key].grad_fn.name(), a[key].grad_fn._saved_indices)
        print((a * 1).index_put((i,), torch.ones(1)).grad_fn._saved_indices)
        y = a[i]; y.sum().backward(); y.grad_fn._saved_indices
    """,
    "the file of mapped memory": """
        import os, tempfile
        with tempfile.TemporaryDirectory() as d:
            p = os.path.join(d, "x"); name = lambda s: None if s.filename is None else os.path.basename(s.filename)
            t = torch.from_file(p, shared=True, size=4); print(name(t.untyped_storage()), name(t[1:].untyped_storage()), name(t.clone().untyped_storage()), name(torch.ones(2).untyped_storage()))
            print(name(torch.from_file(p, shared=False, size=4).untyped_storage()), name(torch.UntypedStorage.from_file(p, True, 16)), name(t.storage()))
    """,
    "sizes of sparse tensors that no int can count": """
        for size in ((2**40, 2**40), (2**62, 2), (2**31, 2**31), (0, 2**40)):
            for make in (lambda: torch.sparse_coo_tensor(size), lambda: torch.sparse_coo_tensor(torch.zeros(len(size), 0, dtype=torch.long), torch.zeros(0), size), lambda: torch.zeros(size, layout=torch.sparse_coo)):
                try: print(make().shape)
                except RuntimeError: print("refused")
    """,
    "windows of fractional pooling": """
        for pool, dims in ((F.fractional_max_pool2d, 2), (F.fractional_max_pool3d, 3)):
            for k in ((1,), [1], (1, 1), [1, 1, 1], 1, (1,) * 4):
                try: print(pool(torch.ones(1, 1, *(4,) * dims), k, output_size=2).shape)
                except RuntimeError: print("refused")
    """,
    "attention of jagged tensors whose ragged dimension stands beside the batch": """
        for lengths in ((2, 2), (2, 3)):
            parts = [torch.linspace(-1, n, n * 10, dtype=torch.float64).reshape(n, 2, 5).requires_grad_() for n in lengths]
            q = torch.nested.as_nested_tensor(parts, layout=torch.jagged)
            r = F.scaled_dot_product_attention(q, q * 2, q).values(); r.pow(2).sum().backward()
            print(r.shape, *(f"{v:.6g}" for v in r.flatten().tolist()), *(f"{v:.6g}" for p in parts for v in p.grad.flatten().tolist()))
    """,
    "the operations of a convolution's backward have a formula": """
        counter = imp("torch.utils.flop_counter"); aten = torch.ops.aten
        print(aten.convolution_backward in counter.flop_registry)
        for t in (False, True):
            x, w = torch.ones(2, 4, 9, 9), torch.ones(4, 6, 3, 3) if t else torch.ones(6, 4, 3, 3)
            y = aten.convolution(x, w, None, [2, 2], [1, 1], [1, 1], t, [0, 0], 1)
            for mask in ([True, True, False], [True, False, True], [False, True, True]):
                g = aten.convolution_backward(torch.ones_like(y), x, w, [6], [2, 2], [1, 1], [1, 1], t, [0, 0], 1, mask)
                print(t, mask, counter.flop_registry[aten.convolution_backward](torch.ones_like(y), x, w, [6], [2, 2], [1, 1], [1, 1], t, [0, 0], 1, mask, out_val=g))
    """,
}


@pytest.mark.parametrize("about", PROGRAMS)
def test_both_libraries_do_the_same(about):
    agree(PROGRAMS[about], warned=False)
