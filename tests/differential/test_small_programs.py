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
    "the operators that references are written in": """
        p = imp("torch._prims")
        x, y = torch.tensor([0.25, 0.5, 2.0]), torch.tensor([3.0, 1.0, 0.5]); i, j = torch.tensor([7, -7, 8]), torch.tensor([2, 2, 3]); m = torch.arange(6.0).reshape(2, 3)
        def show(v):
            if isinstance(v, (tuple, list)): return [show(one) for one in v]
            return [f"{e:.4g}" if isinstance(e, float) else e for e in v.flatten().tolist()], str(v.dtype), tuple(v.shape)
        for n in "abs acos acosh asin asinh atan atanh cos cosh bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 cbrt ceil digamma erf erf_inv erfc erfcx exp expm1 exp2 floor isfinite lgamma log log1p log2 log10 ndtri neg reciprocal round sign signbit sin sinh spherical_bessel_j0 sqrt tan tanh trunc frexp rsqrt clone".split():
            try: print(n, show(getattr(p, n)(x)))
            except RuntimeError as error: print(n, "refused")
        for n in "add atan2 div eq fmax fmin fmod ge gt hypot igamma igammac le lt maximum minimum mul ne nextafter pow remainder sub".split(): print(n, show(getattr(p, n)(x, y)))
        for n in "bitwise_and bitwise_or bitwise_xor gcd div shift_left shift_right_arithmetic".split(): print(n, show(getattr(p, n)(i, j)))
        print(show(p.cbrt(-x)), show(p.zeta(x + 1.5, y)), show(p.broadcast_in_dim(x, (2, 3, 2), (1,))), show(p.transpose(m, (1, 0))), show(p.rev(m, (0,))), show(p.cat([m, m], 1)), show(p.convert_element_type(m, torch.int32)))
        print(show(p.sum(m, (0,))), show(p.sum(m, (0, 1))), show(p.sum(j, (0,))), show(p.amax(m, (0,))), show(p.amin(m, (1,))), show(p.reshape(m, (3, 2))), show(p.squeeze(m[None], (0,))), show(p.where(m > 2, m, -m)), show(p.as_strided(m, (2,), (2,), 1)), show(p.fill(m, 3.0)))
        print(show(p.iota(4, start=2, step=3, dtype=torch.int64, device="cpu", requires_grad=False)))
    """,
    "members of a module by their names": """
        nn, access = torch.nn, imp("torch.nn.utils._named_member_accessor")
        def tried(f):
            try: return f()
            except Exception as e: return type(e).__name__
        m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)); l = m[0]; old = l.weight; w = torch.zeros(2, 2); swap = access.swap_tensor
        print(swap(l, "weight", w) is old, l.weight is w, list(dict(l.named_parameters())), swap(l, "weight", old) is w, l.weight is old)
        print([tried(lambda: swap(*given)) for given in ((l, "nope", w), (l, "a.b", w), (l, "", w), (3, "a", w), (l, "weight", 3), (l, "in_features", w))])
        missing = swap(l, "extra", w, allow_missing=True); print(hasattr(l, "extra"), swap(l, "extra", missing) is w, hasattr(l, "extra"))
        print(tried(lambda: access.set_tensor(l, "other", w)), l.other is w, tried(lambda: access.set_tensor(l, "a.b", w)))
        print(type(access.swap_submodule(m, "1", nn.ReLU())).__name__, m[1], tried(lambda: access.swap_submodule(m, "q", nn.ReLU())), tried(lambda: access.swap_submodule(m, "1", 3)))
        m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)); a = access.NamedMemberAccessor(m)
        print(a.get_tensor("0.weight") is m[0].weight, a.get_submodule("") is m, [tried(lambda: a.get_tensor(n)) for n in ("0.q", "9.q", "0.training", "0")], tried(lambda: a.get_submodule("7")))
        ts = a.get_tensors(["0.weight", "0.bias"]); a.set_tensors(["0.weight", "0.bias"], [w, w[0]]); print(m[0].weight is w, a.swap_tensors(["0.weight", "0.bias"], ts)[0] is w)
        a.set_tensors_dict({"0.weight": w}); before, absent = a.swap_tensors_dict({"0.weight": ts[0], "0.zz": w}, allow_missing=True); print(sorted(before), absent, m[0].zz is w)
        print(tried(lambda: a.swap_tensors_dict({"0.weight": w, "0.qq": w})), m[0].weight is ts[0], hasattr(m[0], "qq"))
        a.del_tensors(["0.bias", "1.running_var"]); print(hasattr(m[0], "bias"), list(m[1]._buffers), tried(lambda: a.del_tensor("0.bias")))
        print(a.check_keys(["0.weight", "x"]), tried(lambda: a.set_tensors(["0.weight"], [w, w])), [n for n, _ in a.named_tensors()], [n for n, _ in a.named_modules()])
    """,
}


@pytest.mark.parametrize("about", PROGRAMS)
def test_both_libraries_do_the_same(about):
    agree(PROGRAMS[about], warned=False)
