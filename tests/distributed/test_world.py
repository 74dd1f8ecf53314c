"""The default group: how it begins and ends, what is asked of it, and what is refused."""

import sys

import pytest

import pullback as torch
import pullback.distributed as dist


@pytest.fixture
def bare(monkeypatch):
    """No launcher has left anything in the environment."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PMI_RANK", "PMI_FD"):
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch
    if dist.is_initialized():
        dist.destroy_process_group()


def test_questions_before_the_beginning_say_to_begin(bare):
    """B-1."""
    assert dist.is_available()
    assert not dist.is_initialized()
    for ask in (dist.get_rank, dist.get_world_size, dist.get_backend, dist.barrier):
        with pytest.raises(ValueError, match=r"init_process_group\(\) first"):
            ask()
    with pytest.raises(ValueError, match=r"init_process_group\(\) first"):
        dist.all_reduce(torch.ones(1))


def test_one_process_needs_no_mpi(bare):
    bare.setenv("RANK", "0")
    bare.setenv("WORLD_SIZE", "1")
    dist.init_process_group("gloo")
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="was called already"):
        dist.init_process_group("gloo")
    dist.destroy_process_group()
    assert not dist.is_initialized()


def test_missing_variables_are_named(bare):
    """B-1."""
    bare.setenv("RANK", "0")
    with pytest.raises(ValueError, match="WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match=r"tcp://host:port or file:///path"):
        dist.init_process_group("gloo", "http://here", rank=0, world_size=2)


def test_other_backends_are_refused_with_the_reason(bare):
    with pytest.raises(RuntimeError, match="backend='nccl' needs a CUDA device"):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match=r"threads\.run\(function, n\)"):
        dist.init_process_group("threads")
    with pytest.raises(ValueError, match="got 'pigeons'"):
        dist.init_process_group("pigeons")
    assert dist.is_backend_available("threads")
    assert not dist.is_backend_available("nccl")


def test_a_missing_engine_names_what_to_install(bare):
    """B-10."""
    bare.setattr("pullback.distributed.engines.mpi.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"install mpi4py mpich"):
        dist.init_process_group("gloo", "tcp://127.0.0.1:1", rank=0, world_size=2)


def test_the_fake_engine_plays_a_rank_of_many(bare):
    """B-12."""
    dist.init_process_group("fake", rank=3, world_size=8)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [8.0, 8.0]
    rows = [torch.zeros(1) for _ in range(8)]
    dist.all_gather(rows, torch.tensor([5.0]))
    assert [row.item() for row in rows] == [5.0] * 8
    out = torch.zeros(16)
    dist.all_to_all_single(out, torch.arange(16.0))
    assert out.tolist() == [6.0, 7.0] * 8
    part = torch.zeros(2)
    dist.reduce_scatter_tensor(part, torch.arange(16.0))
    assert part.tolist() == [48.0, 56.0]
    group = dist.new_group([3, 5])
    assert dist.get_rank(group) == 0
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    model(torch.ones(1, 1)).sum().backward()
    assert model.module.weight.grad.item() == 1.0


def test_threads_may_call_init_as_processes_do():
    def one():
        assert dist.is_initialized()
        dist.init_process_group("gloo", timeout=3.0)
        with pytest.raises(ValueError, match="backend is 'threads'"):
            dist.init_process_group("nccl")
        return dist.get_backend(), dist.group.WORLD.timeout

    assert dist.threads.run(one, 2) == [("threads", 3.0)] * 2
    assert not dist.is_initialized()


def test_wrong_groups_are_refused():
    """B-1."""

    def one():
        for ranks in ([0, 0], [2], [-1], []):
            with pytest.raises(ValueError, match="different numbers below 2"):
                dist.new_group(ranks)
        with pytest.raises(ValueError, match="do not part into groups of 3"):
            dist.new_subgroups(3)
        with pytest.raises(ValueError, match="more than 0 seconds"):
            dist.new_group(timeout=0)

    dist.threads.run(one, 2)


def test_a_sampler_asks_the_group():
    from pullback.utils.data import DistributedSampler

    def one():
        return list(DistributedSampler(range(6), shuffle=False))

    assert dist.threads.run(one, 2) == [[0, 2, 4], [1, 3, 5]]


def test_no_ranks_is_an_error():
    with pytest.raises(ValueError, match="1 rank or more"):
        dist.threads.run(lambda: None, 0)


def test_without_ray_the_package_is_named(monkeypatch):
    """B-10."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"The 'ray' engine needs ray: .*install.* ray"):
        dist.ray.run(print, 2)
