"""Private functions at torch's top, as programs run by both libraries."""
# ruff: noqa: E501 (programs, as users write them in one line)

import pytest

from tests.differential.printed import agree

pytest.importorskip("torch")

PROGRAMS = {
    "masked softmax": """
        x = torch.linspace(-1, 1, 36).reshape(2, 2, 3, 3); full = x > 0.3
        print(torch._masked_softmax(x, full, 3, 2), torch._masked_softmax(x, full[0, 0], 3, 0), torch._masked_softmax(x, full[1, :, 0], 3, 1))
        print(torch._masked_softmax(x[0, 0], full[0, 0], 1)); y = x.clone().requires_grad_(); m = full & (torch.arange(3) > 0)
        (torch._masked_softmax(y, m, 3, 2) ** 2).sum().backward(); print(y.grad)
        for mask, kind in ((full[0, :, 0], 0), (full[:, 0, :2], 1), (full[0, 0], None), (full[0, 0], 3), (x, 2)):
            try: print(torch._masked_softmax(x, mask, 3, kind).shape)
            except RuntimeError: print("RuntimeError")
    """,
    "sums and products with activations": """
        a, b = torch.tensor([1., -2.]), torch.tensor([-3., 4.]); print(torch._add_relu(a, b), torch._add_relu(a, b, alpha=2), torch._add_relu(a, 2.), torch._add_relu_(a, b), a)
        m = torch.linspace(-1, 1, 4).reshape(2, 2)
        for gelu in (False, True): print(torch._addmm_activation(m, m, m + 1, beta=0.5, alpha=2, use_gelu=gelu))
    """,
    "steps of a scaler": """
        scale, steps = torch.tensor([4.]), torch.tensor([0], dtype=torch.int32)
        for found in (0., 0., 0., 1., 0., 0.): print(torch._amp_update_scale_(scale, steps, torch.tensor([found]), 2., .5, 2), steps)
        scale = torch.tensor([3e38]); print(torch._amp_update_scale_(scale, steps, torch.tensor([0.]), 2., .5, 1), steps)
        for last in (3., float('inf'), float('nan')):
            grads, found = [torch.tensor([2., 4.]), torch.tensor([last])], torch.tensor([0.]); torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.tensor([.5])); print(grads, found)
    """,
    "overlaps": """
        one = torch.ones(6)
        for t in (one, one[:1].expand(3), one[::2], torch.ones(2, 3).t(), one.as_strided((3, 2), (1, 1)), one[:0], torch.tensor(1.), one[:1].expand(1)): print(torch._debug_has_internal_overlap(t))
    """,
    "indices": """
        rows = torch.tensor([0, 0, 1, 3]); print(torch._convert_indices_from_coo_to_csr(rows, 4), torch._convert_indices_from_coo_to_csr(rows[:0], 2, out_int32=True))
        starts, columns = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1])
        for more in ({}, {"transpose": True}, {"out_int32": True}): print(torch._convert_indices_from_csr_to_coo(starts, columns, **more))
        print(torch._convert_indices_from_csr_to_coo(torch.stack([starts, starts]), torch.stack([columns, columns])))
    """,
    "sparse broadcasts": """
        s = torch.tensor([[1.], [2.]]).to_sparse()
        for size in ((2, 3), (2, 1), (3, 2, 2), (2, 2, 1)): made = torch._sparse_broadcast_to(s, size); print(made.shape, made.to_dense())
        h = torch.tensor([[[1., 2.]], [[0., 3.]]]).to_sparse(2); print(torch._sparse_broadcast_to(h, (2, 2, 2)).to_dense())
    """,
    "parts of sparse tensors": """
        i = torch.tensor
        print(torch._validate_sparse_compressed_tensor_args(i([0, 1, 2]), i([0, 1]), torch.ones(2), (2, 2), torch.sparse_csr), torch._validate_sparse_coo_tensor_args(i([[0, 1]]), torch.ones(2), (2,)))
        for check in (lambda: torch._validate_sparse_compressed_tensor_args(i([0, 1, 3]), i([0, 1]), torch.ones(2), (2, 2), torch.sparse_csr),
                      lambda: torch._validate_sparse_coo_tensor_args(i([[0, 5]]), torch.ones(2), (2,)), lambda: torch._validate_sparse_csr_tensor_args(i([0, 1, 2]), i([0, 7]), torch.ones(2), (2, 2))):
            try: check()
            except RuntimeError: print("RuntimeError")
    """,
    "nested tensors of masks": """
        x = torch.arange(12.).reshape(2, 3, 2).requires_grad_(); m = torch.tensor([[True, True, False], [True, False, False]])
        made = torch._nested_tensor_from_mask(x, m); print(made.layout, [part.tolist() for part in made.unbind()])
        torch.nested.to_padded_tensor(made, 0.).sum().backward(); print(x.grad)
        print([part.tolist() for part in torch._nested_tensor_from_mask(x, m.flip(1), mask_check=False).unbind()])
        for mask in (m, m.flip(1), m | True, m & False): print(torch._nested_tensor_from_mask_left_aligned(x, mask))
        for t, mask in ((x, m.flip(1)), (x, m.int()), (x, m[0]), (x, m[:, :2]), (x[..., 0], m)):
            try: torch._nested_tensor_from_mask(t, mask); print("none")
            except RuntimeError: print("RuntimeError")
    """,
    "what a module loads": """
        p = torch.ones(2, requires_grad=True)
        with torch.no_grad(): a, b = p.module_load(torch.zeros(2)), p.module_load(torch.ones(2), assign=True)
        print(a, b, p, a.requires_grad, a.data_ptr() == p.data_ptr())
    """,
    "segments": """
        x = torch.tensor([1., 3., 3., 2., 0., 5.], requires_grad=True)
        for kind in ("sum", "mean", "max", "min", "prod"):
            for first in (None, 3.): y = torch._segment_reduce(x, kind, lengths=torch.tensor([3, 0, 3]), initial=first); print(y.detach(), torch.autograd.grad(y[[0, 2]].sum(), x))
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_both_print_the_same(program):
    agree(program, but=("UserWarning",))
