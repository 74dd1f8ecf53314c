"""What must work in a browser too: run by Pyodide, and by the Python of the other tests.

Each function is one claim; the last lines call them all and say which went well.
"""

import functools
import io
import sys
import time
import warnings

import pullback as torch
from pullback.utils.checkpoint import checkpoint


class Double(torch.autograd.Function):
    """Its nodes keep the tensors that they saved, and with them the nodes before."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1.0

    @staticmethod
    def backward(ctx, g):
        return g


def long_graphs_are_freed():
    """Far more nodes than the stack of a browser has room for."""
    kinds = {
        "product": lambda y: y * 1.0,
        "view": lambda y: y.view(2, 2).view(4),
        "outputs": lambda y: torch.stack(y.unbind(0)),
        "in place": lambda y: y.mul_(1.0),
        "Function": Double.apply,
        "checkpoint": lambda y: checkpoint(lambda z: z * 1.0, y, use_reentrant=False),
    }
    for with_pass in (True, False):
        for step in kinds.values():
            y = torch.ones(4, requires_grad=True) * 1.0
            for _ in range(6000):
                y = step(y)
            if with_pass:
                y.sum().backward()
            del y
    _out, pulled = torch.func.vjp(
        lambda x: functools.reduce(lambda a, _: a * 1.0, range(6000), x), torch.ones(3)
    )
    assert pulled(torch.ones(3))[0].tolist() == [1.0, 1.0, 1.0]


def a_network_trains_and_is_saved():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    x = torch.randn(64, 2)
    y = (x[:, :1] * x[:, 1:]).sin()
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file))


def transforms_compose():
    second = torch.func.vmap(torch.func.grad(torch.func.grad(lambda v: v**3)))
    assert second(torch.tensor([1.0, 2.0])).tolist() == [6.0, 12.0]
    assert torch.func.jacrev(torch.sin)(torch.zeros(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: x.exp().prod(), x)


def integers_have_64_bits():
    """NumPy's own default is 32 where addresses are."""
    assert torch.tensor([1, 2]).dtype == torch.arange(3).dtype == torch.int64
    assert torch.ones(3, dtype=torch.int32).sum().dtype == torch.int64
    assert torch.tensor(2**40).item() == 2**40
    assert torch.arange(0, 2**40, 2**38).tolist() == [one * 2**38 for one in range(4)]
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    x[torch.tensor([0, 0, 2])].sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 1.0]


def indices_have_64_bits():
    """NumPy's own are as short as addresses."""
    x, pool = torch.rand(3, 4), torch.nn.functional.max_pool2d
    large = torch.rand(2, 60, 60)
    whole = torch.tensor([[3, 1, 2]], dtype=torch.int32)
    found = [
        *(f(one, 1) for f in (torch.argmax, torch.argmin, torch.argsort) for one in (x, large)),
        *(f(x) for f in (torch.argmax, torch.argmin, torch.nonzero, torch.argwhere)),
        *(f(one, 1).indices for f in (torch.max, torch.min, torch.sort) for one in (x, large)),
        *(f(x, 1).indices for f in (torch.median, torch.nanmedian, torch.mode)),
        *(f(x, 1).indices for f in (torch.cummax, torch.cummin)),
        *(f(one, 2, 1).indices for f in (torch.topk, torch.kthvalue) for one in (x, large)),
        *(pool(one, 2, return_indices=True)[1] for one in (x[None], large)),
        *torch.where(x > 0.5),
        *x.nonzero(as_tuple=True),
        *torch.unique(whole, return_inverse=True, return_counts=True)[1:],
        *torch.unique(whole, return_inverse=True, return_counts=True, dim=1)[1:],
        *torch.unique_consecutive(whole, return_inverse=True, return_counts=True)[1:],
        torch.searchsorted(torch.tensor([1.0, 2.0]), x),
        torch.bucketize(x, torch.tensor([0.5])),
        torch.bincount(torch.tensor([0, 2, 2])),
        torch.repeat_interleave(torch.tensor([2, 1])),
        torch.unravel_index(torch.tensor(5), (2, 3))[0],
        torch.nonzero_static(x, size=3),
        torch.nn.utils.rnn.pack_sequence([x, x[:2]], enforce_sorted=False).sorted_indices,
        torch.multinomial(x, 2),
        torch.randperm(4),
        torch.tril_indices(3, 3),
    ]
    assert [one for one in found if one.dtype != torch.int64] == []
    assert whole.sort().values.dtype == whole.max(1).values.dtype == torch.int32
    assert torch.bucketize(x, torch.tensor([0.5]), out_int32=True).dtype == torch.int32


def indices_and_counts_can_be_used_as_they_come():
    x = torch.tensor([[3.0, 1.0, 2.0]], requires_grad=True)
    values, places = x.sort(1)
    assert torch.equal(values, x.gather(1, places))
    x[torch.arange(1), x.argmax(1)].sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0]]
    ones, functional = torch.ones(5, 2), torch.nn.functional
    assert ones.repeat_interleave(torch.tensor([0, 2, 1, 0, 1]), 0).shape == (4, 2)
    assert torch.segment_reduce(ones, "sum", lengths=torch.tensor([2, 3])).tolist() == [
        [2, 2],
        [3, 3],
    ]
    numbers, offsets = torch.tensor([0, 1, 1, 4]), torch.tensor([0, 1])
    for mode in ("sum", "mean", "max"):
        assert functional.embedding_bag(numbers, ones, offsets, mode=mode).shape == (2, 2)
    functional.embedding(numbers, ones.requires_grad_(), scale_grad_by_freq=True).sum().backward()
    assert ones.grad[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0, 1.0]
    pooled, places = functional.max_pool2d(torch.rand(1, 4, 4), 2, return_indices=True)
    assert functional.max_unpool2d(pooled, places, 2).shape == (1, 4, 4)
    matrix = torch.rand(3, 3) + torch.eye(3)
    parts = torch.lu_unpack(*torch.linalg.lu_factor(matrix))
    assert torch.allclose(torch.linalg.multi_dot(parts), matrix, atol=1e-5)
    assert torch.bincount(torch.tensor([0, 2]), torch.tensor([1.0, 2.0])).tolist() == [1, 0, 2]
    assert torch.histogramdd(torch.rand(9, 2), [2, 2]).hist.sum() == 9
    rows = torch.eye(3).to_sparse_csr()
    assert torch.equal((rows @ torch.ones(3, 2)), torch.ones(3, 2))
    assert torch.equal(rows.to_sparse_coo().to_dense(), torch.eye(3))
    lines = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    assert lines.sum(1).tolist() == [[2.0] * 3, [1.0] * 3]


def patterns_of_sparse_derivatives_are_found():
    def energy(x):
        return ((x[1:] - x[:-1]) ** 2).sum() + x.exp().sum()

    pattern = torch.func.hessian_sparsity(energy)(torch.zeros(5))
    dense = torch.func.hessian(energy)(torch.zeros(5))
    assert torch.equal(
        torch.func.sparse_hessian(energy, pattern=pattern)(torch.zeros(5)).to_dense(), dense
    )


def loaders_without_processes_say_so():
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=2)
    if sys.platform == "emscripten":
        assert [one.category for one in caught] == [UserWarning]
        assert [batch[0].tolist() for batch in loader] == [[0.0, 1.0], [2.0, 3.0]]


def large_arrays_need_no_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    x = torch.rand(600, 600, requires_grad=True)
    try:
        ((x @ x).relu() + x.exp()).sum().backward()
    finally:
        torch.set_num_threads(before)
    assert x.grad.shape == (600, 600)


def graphs_are_drawn():
    x = torch.ones(2, requires_grad=True)
    assert "<iframe" in torch.autograd.graph.show((x * 2).sum())._repr_html_()


def compiled_functions_run():
    x = torch.ones(3, requires_grad=True)
    torch.compile(lambda x: (x.sin() * x).sum())(x).backward()
    assert torch.allclose(x.grad, x.detach().sin() + x.detach().cos())
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    rows = torch.eye(3)  # more calls than it takes to weigh the program against the function
    losses = [step(rows).item() for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    masked = torch.compile(lambda x: x[x > 0].sum() * 2)
    assert [masked(torch.arange(-2.0, 3.0)).item() for _ in range(12)] == [6.0] * 12


CLAIMS = [
    a_network_trains_and_is_saved,
    transforms_compose,
    integers_have_64_bits,
    indices_have_64_bits,
    indices_and_counts_can_be_used_as_they_come,
    patterns_of_sparse_derivatives_are_found,
    loaders_without_processes_say_so,
    large_arrays_need_no_threads,
    graphs_are_drawn,
    compiled_functions_run,
    long_graphs_are_freed,
]

if __name__ == "__main__":
    for claim in CLAIMS:
        began = time.perf_counter()
        claim()
        print(f"ok {claim.__name__} {time.perf_counter() - began:.1f} s", flush=True)
