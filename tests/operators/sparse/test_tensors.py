"""Sparse tensors by themselves: made, taken apart, copied, changed in place, checked."""

import copy
import pickle

import pytest

import pullback as torch
from pullback.testing.sparse_samples import LAYOUTS, matrix

ALL = [*LAYOUTS, "uncoalesced"]


@pytest.mark.parametrize("layout", ALL)
def test_copies_keep_layout_values_and_the_flag(layout):
    x = matrix(torch, layout).requires_grad_()
    x.note = "kept"
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.layout is x.layout
        assert made.requires_grad
        assert made.is_leaf
        assert made.note == "kept"
        assert torch.equal(made.to_dense(), x.to_dense())
    deep = copy.deepcopy(x)
    deep.detach().mul_(2)
    assert not torch.equal(deep.to_dense(), x.to_dense())


@pytest.mark.parametrize("layout", ALL)
def test_files_keep_them(layout, tmp_path):
    x = matrix(torch, layout)
    torch.save([x, x.t()], tmp_path / "x.pt")
    first, second = torch.load(tmp_path / "x.pt")
    assert first.layout is x.layout
    assert torch.equal(first.to_dense(), x.to_dense())
    assert torch.equal(second.to_dense(), x.to_dense().t())


def test_a_file_with_indices_outside_is_refused(tmp_path):
    x = torch.sparse_coo_tensor([[0, 9]], [1.0, 2.0], (3,))
    torch.save(x, tmp_path / "x.pt")
    with pytest.raises(pickle.UnpicklingError, match="sparse"):
        torch.load(tmp_path / "x.pt")


def test_size_alone_gives_zeros():
    for made in (torch.sparse_coo_tensor((2, 3)), torch.sparse_coo_tensor(size=(2, 3))):
        assert made.shape == (2, 3)
        assert made._nnz() == 0
    with pytest.raises(TypeError, match="indices and values, or the size"):
        torch.sparse_coo_tensor()


def test_parts_of_each_layout():
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    coo, csr, csc = dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()
    assert coo.indices().tolist() == [[0, 1], [1, 0]]
    assert coo.values().tolist() == [1, 2]
    assert (csr.crow_indices().tolist(), csr.col_indices().tolist()) == ([0, 1, 2], [1, 0])
    assert (csc.ccol_indices().tolist(), csc.row_indices().tolist()) == ([0, 1, 2], [1, 0])
    assert csc.values().tolist() == [2, 1]
    bsr = dense.to_sparse_bsr((2, 1))
    assert tuple(bsr.values().shape) == (2, 2, 1)
    assert (coo._nnz(), csr._nnz(), bsr._nnz()) == (2, 2, 2)
    assert (coo.sparse_dim(), coo.dense_dim(), dense.sparse_dim(), dense.dense_dim()) == (
        2,
        0,
        0,
        2,
    )
    assert (coo.is_sparse, csr.is_sparse, csr.is_sparse_csr) == (True, False, True)
    assert isinstance(coo, torch.Tensor)


def test_hybrid_tensors_have_dense_dimensions():
    x = torch.sparse_coo_tensor([[2, 0, 2]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (3, 2))
    assert (x.sparse_dim(), x.dense_dim()) == (1, 1)
    assert x.to_dense().tolist() == [[3, 4], [0, 0], [6, 8]]
    assert x.coalesce().values().tolist() == [[3, 4], [6, 8]]
    assert torch.sparse.sum(x, 0).tolist() == [9, 12]
    assert torch.sparse.sum(x, 1).to_dense().tolist() == [7, 0, 14]
    assert torch.sparse.softmax(x, 1).to_dense()[1].tolist() == [0, 0]
    assert x[2].tolist() == [6, 8]
    assert x[:, 1].to_dense().tolist() == [4, 0, 8]
    assert (x * torch.tensor([1.0, 10.0])).to_dense().tolist() == [[3, 40], [0, 0], [6, 80]]
    again = torch.cat([x, x], 1).to_dense()
    assert torch.equal(again, torch.cat([x.to_dense()] * 2, 1))


def test_batches_of_compressed_matrices():
    dense = torch.stack([torch.eye(3), torch.eye(3).flip(0)]) * torch.arange(1.0, 4.0)
    for layout in (torch.sparse_csr, torch.sparse_csc):
        x = dense.to_sparse(layout=layout).requires_grad_()
        assert tuple(x.values().shape) == (2, 3)
        assert torch.equal(x.to_dense(), dense)
        (x * x).to_dense().sum().backward()
        assert torch.equal(x.grad.to_dense(), 2 * dense)
    with pytest.raises(RuntimeError, match="same number"):
        torch.stack([torch.eye(2), torch.ones(2, 2)]).to_sparse_csr()
    blocks = torch.stack([torch.eye(4), torch.eye(4) * 2]).to_sparse_bsr((2, 2))
    assert torch.equal(blocks.to_dense(), torch.stack([torch.eye(4), torch.eye(4) * 2]))
    assert torch.equal(
        torch.bmm(dense.to_sparse(), torch.ones(2, 3, 2)), dense @ torch.ones(2, 3, 2)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.float16, torch.int64])
def test_dtypes(dtype):
    dense = torch.tensor([[1, 0, 2], [0, 3, 0]]).to(dtype)
    for layout in (torch.sparse_coo, torch.sparse_csr):
        x = dense.to_sparse(layout=layout)
        assert x.dtype is dtype
        assert (x + x).to_dense().tolist() == (dense + dense).tolist()
        assert (x @ dense.t()).dtype is dtype
        assert (x @ dense.t()).tolist() == (dense @ dense.t()).tolist()
    assert (dense.to_sparse() * 2.5).dtype is (dense * 2.5).dtype


def test_complex_products_have_conjugate_gradients():
    torch.manual_seed(0)
    a = torch.randn(2, 3, dtype=torch.complex128).to_sparse_csr().requires_grad_()
    b = torch.randn(3, 2, dtype=torch.complex128, requires_grad=True)
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    assert check(torch.sparse.mm, (a, b), masked=True)
    assert check(lambda x, y: x @ y, (a, b), masked=False)
    assert check(lambda x, y: torch.sparse.mm(x, y.to_sparse_csr()), (a, b), masked=True)


def test_empty_and_0d():
    assert torch.zeros(0, 3).to_sparse().to_dense().shape == (0, 3)
    assert (torch.zeros(2, 3).to_sparse() @ torch.ones(3, 2)).tolist() == [[0, 0], [0, 0]]
    x = torch.sparse_coo_tensor(torch.zeros(0, 2).long(), [1.0, 2.0], ())
    assert x.to_dense().item() == 3
    assert x.item() == 3
    assert torch.zeros(3, 0).to_sparse_csr().to_dense().shape == (3, 0)
    assert torch.sparse.softmax(torch.zeros(2, 2).to_sparse(), 1)._nnz() == 0
    assert (torch.eye(2).to_sparse() * torch.zeros(2, 2).to_sparse()).to_dense().sum().item() == 0


def test_writes_in_place_are_counted_and_seen_by_aliases():
    x = torch.eye(2).to_sparse()
    alias, version = x.detach(), x._version
    x.add_(torch.ones(2, 2).to_sparse())
    assert x._version == version + 1 == alias._version
    assert alias.to_dense().tolist() == [[2, 1], [1, 2]]
    leaf = torch.eye(2).to_sparse().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.mul_(2)
    with torch.no_grad():
        leaf.mul_(2)
    assert leaf.requires_grad
    y = leaf * 1
    z = y * y
    y.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        z.to_dense().sum().backward()


def test_a_dense_target_takes_sparse_summands_in_place():
    x = torch.ones(2, 2)
    place = x.data_ptr()
    x.add_(torch.sparse_coo_tensor([[0, 0], [1, 1]], [2.0, 3.0], (2, 2)), alpha=2)
    assert x.tolist() == [[1, 11], [1, 1]]
    assert x.data_ptr() == place
    x.sub_(torch.eye(2).to_sparse_csr())
    assert x.tolist() == [[0, 11], [1, 0]]
    weight = torch.ones(2, 2, requires_grad=True)
    other = torch.eye(2).to_sparse().requires_grad_()
    (weight * 2).add_(other, alpha=3).sum().backward()
    assert weight.grad.tolist() == [[2, 2], [2, 2]]
    assert other.grad.to_dense().tolist() == [[3, 3], [3, 3]]


def test_checks_of_contents_are_asked_for():
    checks = torch.sparse.check_sparse_tensor_invariants
    bad = {"indices": [[0, 7]], "values": [1.0, 2.0], "size": (3,)}
    torch.sparse_coo_tensor(**bad)
    with pytest.raises(RuntimeError, match="index 7"):
        torch.sparse_coo_tensor(**bad, check_invariants=True)
    with checks(), pytest.raises(RuntimeError, match="index 7"):
        torch.sparse_coo_tensor(**bad)
    assert not checks.is_enabled()
    checks.enable()
    try:
        assert checks.is_enabled()
        with checks(False):
            torch.sparse_coo_tensor(**bad)
    finally:
        checks.disable()
    with pytest.raises(RuntimeError, match="increase"):
        torch.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2), check_invariants=True)


def test_sizes_change_in_place():
    x = torch.sparse_coo_tensor([[0], [1]], [5.0], (2, 2))
    x.sparse_resize_((3, 4), 2, 0)
    assert x.to_dense().sum().item() == 5
    with pytest.raises(RuntimeError, match="shrink"):
        x.sparse_resize_((1, 1), 2, 0)
    x.sparse_resize_and_clear_((1, 1), 2, 0)
    assert (tuple(x.shape), x._nnz()) == ((1, 1), 0)


def test_gradcheck_moves_specified_or_all_elements():
    """T-122"""
    gradcheck = torch.autograd.gradcheck
    for layout in ("coo", "csr", "bsc"):
        x = matrix(torch, layout).requires_grad_()
        for fast in (False, True):
            assert gradcheck(lambda v: v.to_dense(), x, masked=True, fast_mode=fast)
            whole = lambda v: v.to_dense(masked_grad=False)  # noqa: E731 (a line for each case)
            assert gradcheck(whole, x, masked=False, fast_mode=fast)
        with pytest.raises(RuntimeError, match="gradcheck"):
            gradcheck(lambda v: v.to_dense(), x, masked=False)
        with pytest.raises(ValueError, match="to_dense"):
            gradcheck(lambda v: v * 2, x, masked=True)
        assert torch.equal(x.to_dense(), matrix(torch, layout).to_dense())


def test_solutions_of_sparse_systems():
    pytest.importorskip("scipy")
    torch.manual_seed(0)
    a = (torch.randn(4, 4, dtype=torch.float64) + 4 * torch.eye(4)).to_sparse_csr().requires_grad_()
    b = torch.randn(4, dtype=torch.float64, requires_grad=True)
    solved = torch.sparse.spsolve(a, b)
    assert torch.allclose(a.detach().to_dense() @ solved, b)
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    assert check(torch.sparse.spsolve, (a, b), masked=True)


def test_second_derivatives_of_products():
    torch.manual_seed(0)
    values = torch.randn(3, dtype=torch.float64, requires_grad=True)
    dense = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def program(values, dense):
        x = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 1]], values, (2, 3))
        return torch.sparse.mm(x.sin(), dense), torch.sparse.mm(x, (x * x).t()).to_dense()

    assert torch.autograd.gradcheck(program, (values, dense))
    assert torch.autograd.gradgradcheck(program, (values, dense))


def test_forward_mode_goes_through_values():
    values, tangent = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])

    def program(values):
        x = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
        return torch.sparse.mm(x * x, torch.eye(2)), torch.sparse.mm(x, x).to_dense()

    out, moved = torch.func.jvp(program, (values,), (tangent,))
    assert out[0].tolist() == [[0, 1], [4, 0]]
    assert moved[0].tolist() == [[0, 6], [16, 0]]
    assert out[1].tolist() == [[2, 0], [0, 2]]
    assert moved[1].tolist() == [[10, 0], [0, 10]]


def test_parameters_and_modules_hold_them():
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.eye(2).to_sparse_csr())
    module.register_buffer("mask", torch.eye(2).to_sparse())
    assert isinstance(module.weight, torch.nn.Parameter)
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    torch.sparse.mm(module.weight, torch.ones(2, 2)).sum().backward()
    assert module.weight.grad.to_dense().tolist() == [[2, 0], [0, 2]]
    assert module.double().mask.dtype is torch.float64


def test_anomaly_mode_looks_at_sparse_gradients():
    weight = torch.ones(2, 2, requires_grad=True)
    rows = torch.nn.functional.embedding(torch.tensor([1]), weight, sparse=True)
    with torch.autograd.set_detect_anomaly(True):
        rows.sum().backward(retain_graph=True)
        with (
            pytest.warns(UserWarning, match="forward call"),
            pytest.raises(RuntimeError, match=r"EmbeddingBackward0.*nan"),
        ):
            rows.backward(torch.full((1, 2), float("nan")))


def test_transforms_and_checkpoints_take_them():
    x = matrix(torch, "coo")
    made = torch.func.grad(lambda v: (v.to_dense() ** 2).sum())(x)
    assert torch.equal(made.to_dense(), 2 * x.to_dense())
    leaf = x.detach().requires_grad_()
    run = lambda v: torch.sparse.mm(v.sin(), torch.ones(3, 2, dtype=v.dtype))  # noqa: E731 (one line, read where it is used)
    torch.utils.checkpoint.checkpoint(run, leaf, use_reentrant=False).sum().backward()
    other = x.detach().requires_grad_()
    run(other).sum().backward()
    assert torch.equal(leaf.grad.to_dense(), other.grad.to_dense())


def test_assert_close_compares_them():
    close = torch.testing.assert_close
    close(matrix(torch, "coo"), matrix(torch, "uncoalesced"))
    with pytest.raises(AssertionError, match="layout"):
        close(matrix(torch, "coo"), matrix(torch, "csr"))
    with pytest.raises(AssertionError, match="differ"):
        close(matrix(torch, "coo"), matrix(torch, "coo") * 2)


def test_products_take_the_gradients_of_their_dense_factor():
    dense = torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
    for layout in ALL:
        dense.grad = None
        (matrix(torch, layout) @ dense).sum().backward()
        expected = matrix(torch, layout).to_dense().sum(0)
        assert torch.allclose(dense.grad, expected[:, None].expand(3, 2))


def test_older_names_of_products_take_dense_matrices_where_torch_does():
    a, b = torch.ones(2, 3), torch.ones(3, 2)
    for name in ("spmm", "dsmm"):
        assert getattr(torch, name)(a, b).tolist() == [[3.0, 3.0], [3.0, 3.0]]
        assert getattr(torch, name)(a.to_sparse(), b).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    with pytest.raises(RuntimeError, match="must be a sparse one"):
        torch.smm(a, b)
