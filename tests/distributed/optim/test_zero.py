"""ZeRO-1 steps as the optimizer of one process does, with a share of the state on each rank."""

import copy

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.optim import ZeroRedundancyOptimizer
from pullback.nn.parallel import DistributedDataParallel

RANKS = 3


def network():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def batch(step):
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(step))


def alone(optimizer_class, steps, **options):
    model = network()
    optimizer = optimizer_class(model.parameters(), **options)
    for step in range(steps):
        optimizer.zero_grad()
        model(batch(step)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def trained(steps, optimizer_class, state=None, **options):
    model = network()
    parallel = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(parallel.parameters(), optimizer_class, **options)
    if state is not None:
        optimizer.load_state_dict(copy.deepcopy(state))
    rows = slice(2 * dist.get_rank(), 2 * dist.get_rank() + 2)
    for step in range(steps):
        optimizer.zero_grad()
        parallel(batch(step)[rows]).square().mean().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize(
    ("optimizer_class", "options"),
    [(torch.optim.Adam, {"lr": 0.05}), (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})],
)
def test_values_are_those_of_one_process_and_equal_to_the_bit(optimizer_class, options):
    def one():
        model, optimizer = trained(4, optimizer_class, **options)
        return [p.detach().clone() for p in model.parameters()], len(optimizer.optim.state)

    wanted, _ = alone(optimizer_class, 4, **options)
    results = dist.threads.run(one, RANKS)
    for values, _ in results:
        for got, want in zip(values, wanted.parameters(), strict=True):
            torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)
        assert [v.numpy().tobytes() for v in values] == [v.numpy().tobytes() for v in results[0][0]]
    assert sum(count for _, count in results) == 4
    assert max(count for _, count in results) == 2


def test_a_whole_state_can_be_gathered_and_is_that_of_one_process():
    def one():
        _, optimizer = trained(2, torch.optim.Adam, lr=0.05)
        if dist.get_rank() == 1:
            with pytest.raises(RuntimeError, match=r"consolidate_state_dict\(to=1\)"):
                optimizer.state_dict()
        optimizer.consolidate_state_dict(to=0)
        return optimizer.state_dict() if dist.get_rank() == 0 else None

    _, optimizer = alone(torch.optim.Adam, 2, lr=0.05)
    wanted, got = optimizer.state_dict(), dist.threads.run(one, RANKS)[0]
    assert list(got["state"]) == list(wanted["state"])
    assert [g["params"] for g in got["param_groups"]] == [[0, 1, 2, 3]]
    for number, state in wanted["state"].items():
        for key, value in state.items():
            torch.testing.assert_close(got["state"][number][key], value, rtol=1e-4, atol=1e-6)


def test_a_state_is_loaded_in_shares():
    _, optimizer = alone(torch.optim.Adam, 2, lr=0.05)
    state = optimizer.state_dict()

    def one():
        model, optimizer = trained(1, torch.optim.Adam, state=state, lr=1.0)
        assert optimizer.param_groups[0]["lr"] == 0.05
        steps = [s["step"].item() for s in optimizer.optim.state.values()]
        return steps, [p.detach() for p in model.parameters()]

    results = dist.threads.run(one, RANKS)
    assert sorted(step for steps, _ in results for step in steps) == [3.0] * 4


def test_schedulers_reach_the_shares():
    def one():
        model = network()
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        model(batch(0)).mean().backward()
        optimizer.step()
        scheduler.step()
        optimizer.step()
        return optimizer.optim.param_groups[0]["lr"]

    assert dist.threads.run(one, 2) == [0.5, 0.5]


def test_what_is_not_possible_is_refused():
    def one():
        model = network()
        with pytest.raises(ValueError, match="overlap_with_ddp"):
            ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, overlap_with_ddp=True)
        optimizer = ZeroRedundancyOptimizer(model[0].parameters(), torch.optim.Adam)
        optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.5})
        assert [group["lr"] for group in optimizer.param_groups] == [0.001, 0.5]
        model(batch(0)).mean().backward()
        optimizer.step()
        with pytest.raises(RuntimeError, match="before the first step"):
            optimizer.add_param_group({"params": [torch.ones(1, requires_grad=True)]})

    dist.threads.run(one, 2)


def test_uneven_inputs_step_as_one_optimizer_would():
    from pullback.distributed.algorithms import Join

    def train(zero):
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        with torch.no_grad():
            for number, p in enumerate(model.parameters()):
                p.copy_(torch.sin(torch.arange(float(p.numel())) + number).reshape(p.shape))
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        if zero:
            optimizer = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam, lr=0.1)
        else:
            optimizer = torch.optim.Adam(parallel.parameters(), lr=0.1)
        with Join([parallel, optimizer] if zero else [parallel]):
            for step in range(4 - dist.get_rank()):
                optimizer.zero_grad()
                parallel(torch.full((1, 2), step + 1.0 + dist.get_rank())).sum().backward()
                optimizer.step()
        return [p.tolist() for p in model.parameters()]

    assert dist.threads.run(train, 2, True) == dist.threads.run(train, 2, False)
