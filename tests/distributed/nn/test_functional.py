"""Collectives that autograd records: their Jacobians over all ranks' inputs are right, twice."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import _functional_collectives as funcol

F = dist.nn.functional
Op = dist.ReduceOp


def inputs_of(rank, size=3, seed=0):
    generator = torch.Generator().manual_seed(seed + rank)
    return torch.randn(size, dtype=torch.float64, generator=generator) + 2


def all_to_all(x):
    n = dist.get_world_size()
    parts = list(torch.stack([x * (k + 1) for k in range(n)]).unbind())
    return torch.stack(F.all_to_all([torch.empty_like(x)] * n, parts))


def uneven(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    sizes = [1] * (n - 1) + [len(x) - n + 1]
    rows = sizes[rank] * n
    out = torch.empty(rows, dtype=x.dtype)
    return F.all_to_all_single(out, x, [sizes[rank]] * n, sizes)


CASES = {
    "all_reduce": lambda x: F.all_reduce(x),
    "all_reduce AVG": lambda x: F.all_reduce(x, Op.AVG),
    "all_reduce MAX": lambda x: F.all_reduce(x, Op.MAX),
    "all_reduce MIN": lambda x: F.all_reduce(x, Op.MIN),
    "all_reduce PRODUCT": lambda x: F.all_reduce(x, Op.PRODUCT),
    "broadcast": lambda x: F.broadcast(x, 1),
    "reduce": lambda x: F.reduce(x, 1),
    "reduce AVG": lambda x: F.reduce(x, 0, Op.AVG),
    "reduce MAX": lambda x: F.reduce(x, 1, Op.MAX),
    "gather": lambda x: torch.stack(F.gather(x, 1)),
    "scatter": lambda x: F.scatter([x * (k + 1) for k in range(dist.get_world_size())], 1),
    "all_gather": lambda x: torch.stack(F.all_gather(x)),
    "reduce_scatter": lambda x: F.reduce_scatter(
        None, [x * (k + 1) for k in range(dist.get_world_size())]
    ),
    "reduce_scatter MAX": lambda x: F.reduce_scatter(
        None, [x * (k + 1) for k in range(dist.get_world_size())], Op.MAX
    ),
    "all_to_all": all_to_all,
    "all_to_all_single": uneven,
    "funcol all_gather": lambda x: funcol.all_gather_tensor(x, 0, None),
    "funcol permute": lambda x: funcol.permute_tensor(
        x, [(k + 1) % dist.get_world_size() for k in range(dist.get_world_size())], None
    ),
}


def loss_of(function, x):
    """A loss that is curved, and another one on each rank."""
    y = function(x)
    weights = torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).reshape(y.shape)
    return ((dist.get_rank() + 1) * weights * y.sin()).sum()


def total_loss(function, xs):
    return sum(dist.threads.run(lambda: loss_of(function, xs[dist.get_rank()]).item(), len(xs)))


def gradients(function, xs):
    def one():
        x = xs[dist.get_rank()].clone().requires_grad_()
        loss_of(function, x).backward()
        return x.grad

    return dist.threads.run(one, len(xs))


def second(function, xs):
    """Gradients of the sum of all ranks' squared gradients."""

    def one():
        x = xs[dist.get_rank()].clone().requires_grad_()
        (g,) = torch.autograd.grad(loss_of(function, x), x, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), x)
        return h

    return dist.threads.run(one, len(xs))


def numeric(measure, xs, eps=1e-6):
    result = []
    for rank, x in enumerate(xs):
        row = torch.zeros_like(x)
        for k in range(len(x)):
            sides = []
            for step in (eps, -eps):
                moved = [one.clone() for one in xs]
                moved[rank][k] += step
                sides.append(measure(moved))
            row[k] = (sides[0] - sides[1]) / (2 * eps)
        result.append(row)
    return result


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_sum_of_all_ranks_losses(name):
    """B-13, B-14, B-15."""
    function = CASES[name]
    xs = [inputs_of(rank) for rank in range(2)]
    expected = numeric(lambda moved: total_loss(function, moved), xs)
    for got, want in zip(gradients(function, xs), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_gradients_too(name):
    """B-19."""
    function = CASES[name]
    xs = [inputs_of(rank) for rank in range(2)]

    def squared(moved):
        return sum((g * g).sum().item() for g in gradients(function, moved))

    for got, want in zip(second(function, xs), numeric(squared, xs), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_equal_extremes_share_their_gradient():
    """B-16."""

    def one():
        x = torch.tensor([3.0, float(dist.get_rank())], requires_grad=True)
        F.all_reduce(x, Op.MAX).sum().backward()
        return x.grad.tolist()

    assert dist.threads.run(one, 3) == [[1.0, 0.0], [1.0, 0.0], [1.0, 3.0]]


def test_products_have_the_exact_gradient_where_factors_are_zero():
    """B-16: of one zero, its partner's; of two, none."""

    def one():
        x = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]][dist.get_rank()], requires_grad=True)
        F.all_reduce(x, Op.PRODUCT).sum().backward()
        return x.grad.tolist()

    assert dist.threads.run(one, 2) == [[6.0, 0.0, 0.0], [0.0, 4.0, 0.0]]


def test_groups_of_some_ranks_have_gradients_of_their_own():
    """B-13: `group=` of every function; roots are numbers of the default group."""

    def one():
        group, rank = dist.new_group([2, 0]), dist.get_rank()
        if rank == 1:
            return None
        x = torch.tensor([rank + 1.0], requires_grad=True)
        pair = [x, 2 * x]
        empty = torch.empty(1)
        outs = [
            F.all_reduce(x, group=group),
            F.broadcast(x, 2, group=group),
            F.reduce(x, 2, group=group),
            torch.cat(F.gather(x, 2, group=group)),
            F.scatter(pair, 2, group=group),
            torch.cat(list(F.all_gather(x, group=group))),
            F.reduce_scatter(empty, pair, group=group),
            torch.cat(list(F.all_to_all([empty, empty], pair, group=group))),
            F.all_to_all_single(torch.empty(2), torch.cat(pair), group=group),
        ]
        grads = [torch.autograd.grad(out.sum(), x, retain_graph=True)[0].item() for out in outs]
        return [out.tolist() for out in outs], grads

    first, _, last = dist.threads.run(one, 3)
    # x is 1 and 3; the loss is the sum over both.
    assert first[0] == [[4], [3], [0], [0, 0], [3], [1, 3], [4], [1, 3], [1, 3]]
    assert last[0] == [[4], [3], [4], [1, 3], [6], [1, 3], [8], [2, 6], [2, 6]]
    assert first[1] == [2, 0, 1, 1, 0, 2, 3, 3, 3]
    assert last[1] == [2, 2, 1, 1, 3, 2, 3, 3, 3]


def test_a_rank_that_does_not_use_its_result_takes_part_by_join_unused():
    """B-18."""

    def one():
        x = torch.ones(2, requires_grad=True)
        y = F.all_reduce(x)
        loss = y.sum() if dist.get_rank() == 0 else F.join_unused((x * 5).sum(), y)
        loss.backward()
        return x.grad.tolist()

    assert dist.threads.run(one, 2) == [[1.0, 1.0], [6.0, 6.0]]


def test_what_has_no_derivative_says_so():
    """B-16."""

    def one():
        with pytest.raises(NotImplementedError, match="BXOR has no derivative"):
            F.all_reduce(torch.ones(1), Op.BXOR)

    dist.threads.run(one, 2)


def test_lists_of_a_wrong_length_say_both_numbers():
    """B-20."""

    def one():
        with pytest.raises(RuntimeError, match="3 tensors for 2 ranks"):
            F.reduce_scatter(None, [torch.ones(1)] * 3)
        with pytest.raises(RuntimeError, match=r"3 rows .* 2 ranks"):
            F.all_to_all_single(torch.ones(3), torch.ones(3))

    dist.threads.run(one, 2)


def test_64_ranks_have_right_gradients():
    def one():
        x = torch.full((2,), float(dist.get_rank()), requires_grad=True)
        (F.all_reduce(x) * (dist.get_rank() + 1)).sum().backward()
        return x.grad.tolist()

    assert dist.threads.run(one, 64) == [[2080.0, 2080.0]] * 64


def test_backward_runs_collectives_in_one_order_on_all_ranks():
    """B-17. Ranks use the results in other orders; the calls differ in shape, so must not cross."""

    def main():
        x = torch.arange(2.0, requires_grad=True)
        y = torch.arange(3.0, requires_grad=True)
        a, b = F.all_reduce(x), F.all_reduce(y)
        parts = [(a * 2).sum(), (b * 3).sum()]
        if dist.get_rank():
            parts.reverse()
        (parts[0] + parts[1]).backward()
        return x.grad.tolist(), y.grad.tolist()

    assert dist.threads.run(main, 2) == [([4.0, 4.0], [6.0, 6.0, 6.0])] * 2
