"""Short programs on sparse and nested tensors give on pullback what they give on torch."""

import warnings

import pytest

import pullback

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def checks_left_off():
    """Programs that enter a context and end in an error leave it on."""
    yield
    for library in (pullback, torch):
        library.sparse.check_sparse_tensor_invariants.disable()


@pytest.fixture(autouse=True)
def no_word_about_beta():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def described(lib, made):
    """What can be seen of a result, the same for both libraries."""
    if isinstance(made, tuple | list):
        return [described(lib, one) for one in made]
    if not isinstance(made, lib.Tensor):
        return str(made)
    if made.is_nested:
        return [str(made.layout), *(described(lib, one) for one in made.unbind())]
    seen = [str(made.layout), str(made.dtype), tuple(made.shape), str(made.device)]
    if made.layout is not lib.strided:
        seen += [str(one.dtype) for one in indices(lib, made)]
        seen += [made._nnz()] if made.device.type != "meta" else []
        if made.device.type != "meta":
            made = made.to_dense()
    return [*seen, None if made.device.type == "meta" else str(made.tolist())]


def indices(lib, x):
    if x.layout is lib.sparse_coo:
        return [x._indices()]
    if x.layout in (lib.sparse_csr, lib.sparse_bsr):
        return [x.crow_indices(), x.col_indices()]
    return [x.ccol_indices(), x.row_indices()]


def run(lib, program):
    """The value of the last expression; statements before it are separated by semicolons."""
    scope = {"torch": lib, "nn": lib.nn, "F": lib.nn.functional}
    *steps, last = program.split("; ")
    for step in steps:
        exec(step, scope)
    return described(lib, eval(last, scope))


S = "s = torch.tensor([[1., 0., 2.], [0., 3., 0.]]).to_sparse(); "
SQUARE = "m = torch.tensor([[1., 0., 2.], [0., 3., 0.], [4., 0., 0.]]); "
BATCH = "d = torch.tensor([[[1., 0.], [2., 3.]], [[0., 4.], [5., 6.]]]); "
NAN = "nan = torch.full((2, 2), float('nan')); e = torch.eye(2); o = torch.ones(2, 2); "

SAME: list[str] = []

SAME += [
    f"{NAN}torch.{name}(nan{first}, e{left}, o{right}, beta=0)"
    for name in ("addmm", "sparse.addmm")
    for first, left, right in [
        ("", ".to_sparse()", ""),
        ("", ".to_sparse_csr()", ""),
        ("[0]", ".to_sparse_csc()", ""),
        ("", "", ".to_sparse_csr()"),
        (".to_sparse_csr()", ".to_sparse_csr()", ".to_sparse_csr()"),
        (".to_sparse_csr()", ".to_sparse_csc()", ".to_sparse_csr()"),
        ("", ".to_sparse_bsr((1, 1))", ""),
    ]
]
SAME += [
    f"{NAN}nan.addmm_(e.to_sparse(), o, beta=0)",
    f"{NAN}torch.addmv(nan[0], e.to_sparse_csr(), o[0], beta=0)",
    f"{NAN}nan[0].addmv_(e.to_sparse_csr(), o[0], beta=0)",
    f"{NAN}torch.sparse.sampled_addmm(nan.to_sparse_csr(), o, o, beta=0.)",
    f"{NAN}torch.sspaddmm(nan.to_sparse(), e.to_sparse(), o, beta=0).to_dense()",
    f"{NAN}nan.requires_grad_(); "
    "torch.sparse.addmm(nan, e.to_sparse(), o, beta=0).sum().backward(); nan.grad",
]
SAME += [
    "x = torch.arange(10., requires_grad=True); "
    "torch.gather(x, 0, torch.tensor(3), sparse_grad=True).backward(); x.grad",
]
SAME += [
    f"x = torch.tensor([[1., 0.], [0., 2.]]).to_sparse_{k}().requires_grad_(); "
    f"y = torch.tensor([[3., 4.], [0., 5.]]).to_sparse_{k}().requires_grad_(); "
    f"({product}).backward(torch.tensor([[1., 1.], [1., 0.]]).to_sparse_{k}()); "
    "[x.grad.to_dense(), y.grad.to_dense()]"
    for k in ("csr",)
    for product in ("y * x", "x * y")
]
SAME += [
    "torch.tensor([[1, 2], [3, 4]], dtype=torch.int32).to_sparse()[0, 1]",
    "torch.tensor([[True, False]]).to_sparse()[0, 1]",
    "torch.tensor([1, 2], dtype=torch.int8).to_sparse()[0]",
    f"{SQUARE}c = m.to_sparse_csr(); "
    "lines = c.crow_indices().int(), c.col_indices().int(); "
    "i = torch.sparse_csr_tensor(*lines, c.values(), (3, 3)); "
    "[i, i.to_sparse_csc(), i.to_sparse_bsr((3, 3)), i.to_sparse_bsc((1, 1)), i.to_sparse(), "
    "i.t(), i + i, -i, i @ i, i.clone(), i.double(), i.sum(0, keepdim=True)]",
    *(
        f"{BATCH}b = d.to_sparse_{k}; "
        "[b[0], b[1], b[-1], b.select(0, 1), torch.select_copy(b, 0, 1)]"
        for k in ("csr()", "csc()", "bsr((1, 1))", "bsc((1, 1))")
    ),
    f"{SQUARE}[m.to_sparse_csc() @ m.to_sparse_csc(), m.to_sparse_csr() @ m.to_sparse_csc()]",
]
SAME += [
    f"torch.{call}(torch.tensor([1, 2], dtype=torch.{a}).to_sparse(), "
    f"{rest}out=torch.tensor([1, 2], dtype=torch.{b}).to_sparse())"
    for call, rest in (("asin", ""), ("mul", "2, "), ("neg", ""), ("sqrt", ""))
    for a, b in (("int64", "float32"), ("float64", "float32"), ("float32", "float64"))
]
SAME += [
    "torch.mm(torch.eye(2).to_sparse(), torch.eye(2), out=torch.zeros(3, 3))",
    "t = torch.ones(2, 2); torch.addmm(t, torch.eye(2).to_sparse_csr(), t, out=torch.empty(0))",
    "torch.tensor([1., 2.]).mul_(torch.tensor([1.5, 2.], dtype=torch.float64).to_sparse())",
    "torch.tensor([1., 2.]).add_(torch.tensor([3, 2]).to_sparse())",
]
SAME += [
    "o = torch.eye(2).to_sparse(); torch.zeros((2, 3), out=o, layout=torch.sparse_coo); o",
    "o = torch.eye(2).to_sparse(); torch.empty((2, 3), out=o, layout=torch.sparse_coo); o.shape",
]
SAME += [
    f"{S}torch.{f}_like(s{k}, {n}layout=torch.strided)"
    for f, n in (("zeros", ""), ("ones", ""), ("full", "7., "))
    for k in ("",)
]
SAME += [
    f"{S}[torch.empty_like(s, layout=torch.strided).layout, "
    "torch.rand_like(s, layout=torch.strided).shape]",
    f"{S}torch.zeros_like(s, dtype=torch.float64)",
    f"{S}c = s.to_sparse_csr(); [torch.ones_like(c), torch.full_like(c, 3.), torch.zeros_like(c), "
    "torch.empty_like(c).shape, torch.zeros_like(c, layout=torch.sparse_coo), "
    "torch.zeros_like(s, layout=torch.sparse_csr), "
    "torch.zeros_like(torch.ones(2, 3), layout=torch.sparse_coo)]",
]
SAME += [
    "n = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged); "
    "[isinstance(n.shape[1], torch.SymInt), isinstance(n.shape[0], torch.SymInt)]",
]
EMPTY = "empty = torch.tensor([], dtype=torch.int64); "
SAME += [
    f"{EMPTY}torch.sparse_{k}_tensor(torch.tensor({starts}), empty, "
    f"torch.zeros({values}), (2, 4), check_invariants=True)"
    for k, starts, values in [
        ("csr", [0, 0, 0], (0,)),
        ("csc", [0, 0, 0, 0, 0], (0,)),
        ("bsr", [0, 0], (0, 2, 2)),
        ("bsc", [0, 0, 0], (0, 2, 2)),
    ]
]
SAME += [
    f"{EMPTY}torch.sparse_csr_tensor(torch.zeros(2, 3, dtype=torch.int64), "
    "empty.reshape(2, 0), torch.zeros(2, 0), (2, 2, 3), check_invariants=True)",
    f"{EMPTY}torch.sparse_csr_tensor(torch.tensor([0]), empty, torch.zeros(0), (0, 3), "
    "check_invariants=True)",
    f"{EMPTY}torch.sparse_coo_tensor(empty.reshape(2, 0), torch.zeros(0), (0, 3), "
    "check_invariants=True)",
]
SAME += [
    f"{S}z = torch.tensor(2.).to_sparse(); [s * z, z * s, z * z, s.to_sparse_csr() * z]",
    "torch.ones(2, 3, 4, 5).to_sparse(2) * torch.ones(2, 3, 1, 5).to_sparse(2)",
    "torch.ones(2, 3, 1, 5).to_sparse(2) * (2 * torch.ones(2, 3, 4, 5)).to_sparse(2)",
    f"{S}[s * s.int(), s.int() * s.double()]",
    "x = torch.ones(2, 1, requires_grad=True); "
    "(x.to_sparse(1) * torch.ones(2, 3).to_sparse(1)).to_dense().sum().backward(); x.grad",
]
SAME += [
    "x = torch.sparse_coo_tensor([[0, 0], [1, 1]], torch.tensor([1., 2.], dtype=torch.float64), "
    "(2, 2)).requires_grad_(); d = torch.ones(2, 2, dtype=torch.float64, requires_grad=True); "
    f"[torch.autograd.gradcheck(torch.sparse.mm, (x, d), masked=True, fast_mode={fast}), x]"
    for fast in (False, True)
]
SAME += [
    f"{S}s.new(s.indices(), s.values(), (3, 4))",
    f"{S}[s.new().layout, s.new().shape, s.new(2, 3), s.new(torch.Size([3, 2]))]",
    "torch.eye(2).to_sparse(layout=torch.strided)",
    "torch.zeros(0, 3, 4).to_sparse().bmm(torch.ones(0, 4, 5))",
    "torch.zeros(2, 3, 0).to_sparse().bmm(torch.ones(2, 0, 5))",
    "torch.zeros(2, 3, 4).to_sparse().bmm(torch.ones(2, 4, 0))",
    f"{SQUARE}[one.shape for one in torch.pca_lowrank(m.to_sparse(), q=2)]",
    "t = torch.ones(2, 2); o = torch.empty(0); "
    "torch.addmm(t, torch.eye(2).to_sparse_csr(), t, out=o); o",
]
SAME += [
    "F.linear(torch.arange(3.), torch.eye(3).to_sparse_csr())",
    "F.linear(torch.arange(6.).reshape(2, 3), torch.eye(3).to_sparse_csr())",
    "F.linear(torch.arange(6.).reshape(2, 3), torch.eye(3).to_sparse_csr(), torch.ones(3))",
    "F.linear(torch.arange(6.).reshape(2, 3), torch.eye(3).to_sparse_csc())",
    "x = torch.arange(3., requires_grad=True); "
    "F.linear(x, torch.tensor([[1., 2., 0.], [0., 0., 3.]]).to_sparse_csr()).sum().backward(); "
    "x.grad",
    f"{SQUARE}[torch.arange(3.) @ m.to_sparse_csc(), m.to_sparse_csc() @ torch.arange(3.)]",
    f"{S}s.to_sparse_csr().resize_as_sparse_(torch.eye(4).to_sparse_csr()).shape",
    "a = torch.tensor([[2., 0.], [1., 4.]]).to_sparse_csr(); "
    "[*torch.triangular_solve(torch.ones(2, 1), a, upper=False)]",
    "F.linear(torch.ones(5, 2, 3), torch.eye(3).to_sparse_csr(), torch.ones(3))",
    f"{SQUARE}torch.matmul(torch.ones(5, 1, 3), m.to_sparse())",
]
SAME += [
    "torch.sparse_coo_tensor(torch.zeros([1, 1]), torch.ones([1]))",
    "torch.sparse_coo_tensor(torch.tensor([[1.9]]), torch.ones([1]))",
    "torch.sparse_coo_tensor([[0]], 5., (2,))",
    "torch.eye(4).to_sparse_bsr(2)",
    "torch.eye(4).to_sparse_bsc(2)",
    "torch.ones(2, 2).to_sparse(1) + torch.sparse_coo_tensor((2, 2))",
]
SAME += [
    "torch.func.grad(lambda x: x.coalesce()._values().sum())(torch.eye(2).to_sparse())",
]
SAME += [
    "torch.eye(2).to_sparse().to('meta')",
    "torch.eye(2).to_sparse_csr().to('meta')",
    "torch.eye(4).to_sparse_bsr((2, 2)).to('meta')",
    f"{S}torch.zeros_like(s, device='meta')",
    f"{S}torch.empty_like(s.to_sparse_csr(), device='meta')",
    "i = torch.zeros(2, 3, dtype=torch.int64, device='meta'); "
    "torch.sparse_coo_tensor(i, torch.ones(3, device='meta'), (2, 2))",
    "i = torch.zeros(3, dtype=torch.int64, device='meta'); "
    "torch.sparse_csr_tensor(i, i, torch.ones(3, device='meta'), (2, 2))",
    "torch.sparse_coo_tensor(size=(2, 2), device='meta')",
]
SAME += [
    f"{S}s.to_sparse_csr().resize_(3, 3).shape",
    f"{S}s.t_()",
    f"{S}s.transpose_(0, 1)",
    "torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).share_memory_()",
]
SAME += [
    "n = torch.nested.nested_tensor([torch.ones(2, 5), torch.ones(3, 5)]); "
    "[*n.split_with_sizes([2, 3], dim=-1)]",
    "torch.nested.to_padded_tensor(torch.nested.nested_tensor([]), 4)",
    "torch.softmax(torch.nested.nested_tensor([]), 0)",
    "n = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged); "
    "n.apply_(lambda v: v + 1).values()",
    "n = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged); "
    "torch.ops.aten._unsafe_view(n, [2, -1, 2, 2]).values()",
    "n = torch.nested.nested_tensor([torch.ones(2, dtype=torch.bool)], layout=torch.jagged); "
    "[torch.ops.aten._is_all_true(n), torch.ops.aten._is_any_true(n)]",
    "q = torch.nested.nested_tensor([torch.ones(3, 2, 4)] * 2, layout=torch.jagged).transpose(1, 2)"
    "; F.scaled_dot_product_attention(q, q, q).transpose(1, 2).values().shape",
    "x = torch.arange(24.).view(2, 3, 4); r = torch.nested.masked_select(x, x > 5); "
    "[r.values(), r.offsets()]",
]


@pytest.mark.parametrize("program", SAME)
def test_both_libraries_give_the_same(program):
    theirs = run(torch, program)
    assert run(pullback, program) == theirs


REFUSED: list[str] = []

REFUSED += ["torch.zeros((2, 3), out=torch.zeros(2, 2), layout=torch.sparse_coo)"]
REFUSED += [
    f"{BATCH}d.to_sparse_{k}.select({dim}, 0)"
    for k in ("csr()", "bsr((1, 1))")
    for dim in (1, 2, -1)
]
REFUSED += [
    f"{S}torch.{f}_like(s.to_sparse_csr(), {n}layout=torch.strided)"
    for f, n in (("zeros", ""), ("ones", ""), ("full", "7., "), ("empty", ""))
]
REFUSED += [
    f"{S}torch.zeros_like(s, memory_format=torch.contiguous_format)",
    f"{S}torch.ones_like(s)",
]
REFUSED += [
    "torch.tensor([1, 2]).mul_(torch.tensor([1.5, 2.]).to_sparse())",
    "torch.tensor([1, 2]).add_(torch.tensor([1.5, 2.]).to_sparse())",
    "torch.tensor([1, 2]).sub_(torch.tensor([1.5, 2.]).to_sparse())",
    "torch.tensor([1, 2]).to_sparse().mul_(torch.tensor([1.5, 2.]).to_sparse())",
    "torch.tensor([1, 2]).to_sparse().mul_(1.5)",
    "torch.tensor([1, 2]).to_sparse().add_(torch.tensor([1.5, 2.]).to_sparse())",
    "torch.tensor([1, 2]).to_sparse().div_(2)",
    "torch.tensor([1, 2]).to_sparse().log1p_()",
    "torch.tensor([1, 2]).to_sparse().asin_()",
    "torch.tensor([[1, 2]]).to_sparse_csr().sin_()",
    "torch.asin(torch.tensor([1, 2]).to_sparse(), out=torch.tensor([1, 2]).to_sparse())",
    "torch.add(torch.tensor([1., 2]).to_sparse(), torch.tensor([1., 2]).to_sparse(), "
    "out=torch.tensor([1, 2]).to_sparse())",
]
REFUSED += [
    "x = torch.ones(2, 2); x.data = torch.eye(2).to_sparse(); x",
    f"{S}s.data = torch.ones(2, 3); s",
    f"{S}s.data = s.to_sparse_csr(); s",
]
REFUSED += [
    f"{S}s.to_sparse_csr().t_()",
    f"{S}s.to_sparse_csr().resize_(2, 2)",
    f"{S}s.to_sparse_csr().new(2, 3)",
    f"{S}s.new([1., 2.])",
    f"{S}s.to_sparse_csr().resize_as_sparse_(s)",
]
REFUSED += ["torch.from_dlpack(torch.eye(2).to_sparse())"]
REFUSED += [
    "torch.addmv(torch.ones(2, dtype=torch.float64), torch.eye(2).to_sparse_csr(), torch.ones(2))",
    "i = torch.tensor([0, 1], dtype=torch.int16); torch.sparse_compressed_tensor("
    "i, i[:1], torch.ones(1), (1, 1), layout=torch.sparse_csr, check_invariants=True)",
    f"{S}s.to_sparse_csr().is_contiguous()",
    "torch.sparse_coo_tensor([[0, 0]], [.1, .2], (2,)).asin_()",
    "torch.sparse_coo_tensor([[0, 0]], [.1, .2], (2,)).log1p_()",
    f"{S}s.norm(keepdim=True)",
    "torch.eye(2).to_sparse(blocksize=(1,))",
    "c = torch.sparse.check_sparse_tensor_invariants(); c.__enter__(); c.__enter__()",
    "torch.sparse_coo_tensor([[0], [0]], [1.], (2 ** 62, 4))",
    "torch.sparse_coo_tensor(size=(2 ** 62, 4))",
]
REFUSED += [
    f"{S}torch.cat([s, torch.ones(2, 3)])",
    f"{S}torch.ones(2, 3) / s",
    f"{S}s // s",
    f"{S}s / s",
    f"{S}s + 1",
    f"{S}torch.empty_like(s.to_sparse_csr(), layout=torch.sparse_coo)",
    "torch.nested.nested_tensor([torch.ones(1, 2)]).squeeze()",
    f"{S}s[0] = 1.; s",
    f"{S}s.narrow_copy(0, 4, 3)",
    f"{S}s.to_sparse_csr().stride()",
]


@pytest.mark.parametrize("program", REFUSED)
def test_both_libraries_refuse_in_the_same_way(program):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (whatever torch raises)
        run(torch, program)
    with pytest.raises(theirs.type):
        run(pullback, program)
