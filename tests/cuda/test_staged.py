"""Device tensors between ranks by an engine for the host, through pinned memory."""

import pytest

import pullback as torch
import pullback.distributed as dist

pytestmark = pytest.mark.usefixtures("library")


def tensor(*values, dtype=None):
    return torch.tensor(values, dtype=dtype, device="cuda")


def test_reductions_and_copies():
    """B-7."""

    def main():
        rank = dist.get_rank()
        x = tensor(rank + 1.0, 2.0)
        dist.all_reduce(x)
        at_root = tensor(float(rank))
        dist.reduce(at_root, 1, dist.ReduceOp.MAX)
        first = tensor(float(rank))
        dist.broadcast(first, 2)
        rows = [tensor(0.0) for _ in range(3)]
        dist.all_gather(rows, tensor(float(rank)))
        gathered = [tensor(0.0) for _ in range(3)] if rank == 1 else None
        dist.gather(tensor(float(rank)), gathered, dst=1)
        part = tensor(0.0)
        dist.scatter(part, [tensor(float(k)) for k in (5, 6, 7)] if rank == 0 else None, src=0)
        summed = tensor(0.0)
        dist.reduce_scatter_tensor(summed, tensor(1.0, 2.0, 3.0))
        out = tensor(0.0, 0.0, 0.0)
        dist.all_to_all_single(out, tensor(0.0, 1.0, 2.0) + 10 * rank)
        assert all(one.is_cuda for one in (x, at_root, first, *rows, part, summed, out))
        return [
            x.tolist(),
            at_root.item(),
            first.item(),
            [row.item() for row in rows],
            gathered and [row.item() for row in gathered],
            part.item(),
            summed.item(),
            out.tolist(),
        ]

    for rank, found in enumerate(dist.threads.run(main, 3)):
        assert found == [
            [6.0, 6.0],
            2.0 if rank == 1 else float(rank),
            2.0,
            [0.0, 1.0, 2.0],
            [0.0, 1.0, 2.0] if rank == 1 else None,
            5.0 + rank,
            3.0 * (rank + 1),
            [rank, 10.0 + rank, 20.0 + rank],
        ]


@pytest.mark.parametrize("dtype", [torch.float16, torch.complex64, torch.bool, torch.int16])
def test_every_dtype_goes_and_what_is_not_contiguous_is_packed(dtype):
    def main():
        x = torch.ones(2, 3, dtype=dtype, device="cuda").T
        version = x._version
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        assert x._version > version
        return x.cpu().tolist()

    wanted = torch.full((3, 2), 2, dtype=dtype).tolist()
    assert dist.threads.run(main, 2) == [wanted, wanted]


def test_messages_groups_and_tensors_of_the_host_beside():
    def main():
        rank = dist.get_rank()
        on_host = torch.ones(2)
        dist.all_reduce(on_host)
        got = tensor(0.0, 0.0)
        if rank == 0:
            dist.send(tensor(3.0, 4.0), 1)
        elif rank == 1:
            assert dist.recv(got) == 0
        pair = dist.new_group([0, 2])
        x = tensor(1.0)
        if rank != 1:
            dist.all_reduce(x, group=pair)
        dist.all_reduce(on_host)
        return on_host.tolist(), got.tolist(), x.item(), dist.get_backend()

    zeros = [0.0, 0.0]
    assert dist.threads.run(main, 3) == [
        ([9.0, 9.0], zeros, 2.0, "threads"),
        ([9.0, 9.0], [3.0, 4.0], 1.0, "threads"),
        ([9.0, 9.0], zeros, 2.0, "threads"),
    ]


def test_data_parallel_training_gives_the_mean_of_the_gradients():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, generator=generator)
    torch.manual_seed(0)
    plain = torch.nn.Linear(3, 2).double()
    plain(x).square().mean().backward()
    state = plain.state_dict()

    def main():
        model = torch.nn.Linear(3, 2).double()
        if dist.get_rank() == 0:  # the other gets it from there
            model.load_state_dict(state)
        parallel = torch.nn.parallel.DistributedDataParallel(model.cuda())
        own = x[2 * dist.get_rank() :][:2].cuda()
        parallel(own).square().mean().backward()
        assert model.weight.grad.is_cuda
        return model.weight.grad.cpu(), model.bias.grad.cpu()

    for weight, bias in dist.threads.run(main, 2):
        torch.testing.assert_close(weight, plain.weight.grad)
        torch.testing.assert_close(bias, plain.bias.grad)


def test_it_is_there_from_the_first_device_tensor_on():
    def main():
        def engine():
            return type(dist.group.WORLD.communicator).__name__

        before = engine()
        dist.all_reduce(torch.ones(1))
        between = engine()
        dist.all_reduce(tensor(1.0))
        return before, between, engine()

    for before, between, after in dist.threads.run(main, 2):
        assert before == between == "ThreadCommunicator"
        assert after == "StagedCommunicator"
