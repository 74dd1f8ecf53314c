"""Sparse tensors against torch: every program in every layout that both take, with gradients."""

import warnings

import numpy
import pytest

import pullback
from pullback.testing.sparse_samples import LAYOUTS, PROGRAMS, matrix

torch = pytest.importorskip("torch")

# Where our gradient says the same in another layout, or torch's is not the derivative: what comes
# out dense of a sparse tensor has a sparse gradient here; blocks and other summands bring no
# gradient to places that the input does not specify.
OTHER_GRADIENT = {"x[0, 2]", "to_sparse_bsc", "to_sparse_bsr", "add, other places"}


@pytest.fixture(autouse=True)
def no_word_about_beta():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def dense(tensor):
    tensor = tensor.detach()
    return (tensor if "strided" in str(tensor.layout) else tensor.to_dense()).numpy()


def outcome(lib, name, layout):
    """Layout, values and gradient of a program; None where the library refuses."""
    x = matrix(lib, layout).detach().requires_grad_()
    try:
        made = PROGRAMS[name](lib, x)
        whole = made if made.layout is lib.strided else made.to_dense()
    except (NotImplementedError, RuntimeError, TypeError, AttributeError):
        return None
    g = None
    if whole.requires_grad:
        weights = lib.arange(1, whole.numel() + 1, dtype=whole.dtype).reshape(whole.shape)
        try:
            (whole * weights).sum().backward()
            g = x.grad
        except (NotImplementedError, RuntimeError):
            g = None
    return str(made.layout), dense(made), g


@pytest.mark.parametrize("layout", [*LAYOUTS, "uncoalesced"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_torch_takes_gives_the_same(name, layout):
    """B-66"""
    theirs = outcome(torch, name, layout)
    ours = outcome(pullback, name, layout)
    if theirs is None:
        return
    assert ours is not None
    assert ours[0] == theirs[0]
    numpy.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9)
    if theirs[2] is None or name in OTHER_GRADIENT:
        return
    assert str(ours[2].layout) == str(theirs[2].layout)
    numpy.testing.assert_allclose(dense(ours[2]), dense(theirs[2]), rtol=1e-9)


def test_most_programs_are_compared_in_the_usual_layouts():
    """A test that skips what torch refuses must not skip all."""
    counts = {one: sum(outcome(torch, n, one) is not None for n in PROGRAMS) for one in LAYOUTS}
    assert counts["coo"] > 60
    assert counts["csr"] > 50


MADE = [
    "lib.eye(3).to_sparse()",
    "lib.eye(3, dtype=lib.float64).to_sparse().requires_grad_()",
    "lib.eye(2, dtype=lib.complex64).to_sparse()",
    "lib.eye(3).to_sparse().requires_grad_() * 2",
    "lib.eye(3).to_sparse_csr().requires_grad_()",
    "lib.eye(3, dtype=lib.float64).to_sparse_csc()",
    "lib.eye(4).to_sparse_bsr((2, 2))",
    "lib.eye(4, dtype=lib.int32).to_sparse_bsc((2, 2))",
    "lib.zeros(2, 3).to_sparse()",
    "lib.zeros(2, 3, layout=lib.sparse_csr)",
    "lib.empty(2, 3, layout=lib.sparse_coo, dtype=lib.float64)",
    "lib.sparse_coo_tensor([[0, 1]], [[1.0, 2], [3, 4]], (3, 2))",
    "lib.sparse_coo_tensor((2, 3))",
    "lib.eye(2000).to_sparse_csr()",
    "lib.sparse_coo_tensor(lib.arange(30)[None], lib.arange(30.0), (30,))",
    "lib.stack([lib.eye(2), lib.ones(2, 2) - lib.eye(2)]).to_sparse_csr()",
    "lib.sparse.spdiags(lib.arange(6.0).reshape(2, 3), lib.tensor([0, -1]), (3, 4))",
    "lib.sparse_coo_tensor([[0, 5]], [1.0, 2.0])",
]


@pytest.mark.parametrize("made", MADE)
def test_sparse_tensors_look_the_same(made):
    assert repr(eval(made, {"lib": pullback})) == repr(eval(made, {"lib": torch}))


REFUSED = [
    "lib.sparse_coo_tensor([[0, 5]], [1.0, 2], (3,), check_invariants=True)",
    "lib.sparse_coo_tensor([[0, -1]], [1.0, 2])",
    "lib.sparse_coo_tensor([[0, 1]], [1.0, 2, 3])",
    "lib.sparse_coo_tensor([0, 1], [1.0, 2])",
    "lib.sparse_coo_tensor([[0, 1]], [1.0, 2], (3, 3))",
    "lib.sparse_csr_tensor([0, 2, 4], [0, 1, 0], [1.0, 2, 3], (2, 2), check_invariants=True)",
    "lib.sparse_csr_tensor([1, 2, 3], [0, 1, 0], [1.0, 2, 3], (2, 2), check_invariants=True)",
    "lib.sparse_csr_tensor([0, 2, 3], [1, 0, 0], [1.0, 2, 3], (2, 2), check_invariants=True)",
    "lib.sparse_csr_tensor([0, 2, 3], [0, 7, 0], [1.0, 2, 3], (2, 2), check_invariants=True)",
    "lib.eye(3).to_sparse_bsr((2, 2))",
    "lib.eye(3).coalesce()",
    "lib.eye(3).to_sparse().crow_indices()",
    "lib.eye(3).to_sparse_csr().indices()",
    "lib.sparse_coo_tensor([[0, 0]], [1.0, 2]).values()",
    "lib.eye(3).to_sparse().view(9)",
    "lib.eye(3).to_sparse().to_dense().sparse_mask(lib.eye(2).to_sparse())",
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_torch_refuses_is_refused_with_its_type(call):
    with pytest.raises((RuntimeError, TypeError, ValueError, NotImplementedError)) as theirs:
        eval(call, {"lib": torch})
    with pytest.raises(theirs.type):
        eval(call, {"lib": pullback})


@pytest.mark.parametrize("layout", [*LAYOUTS, "uncoalesced"])
def test_files_go_from_one_library_to_the_other(layout, tmp_path):
    for writer, reader in ((torch, pullback), (pullback, torch)):
        x = matrix(writer, layout)
        writer.save({"x": x}, tmp_path / "x.pt")
        y = reader.load(tmp_path / "x.pt", weights_only=True)["x"]
        assert str(y.layout) == str(x.layout)
        assert y._nnz() == x._nnz()
        numpy.testing.assert_array_equal(dense(y), dense(x))
