"""Averaged models: what is averaged, what is copied, what is refused."""

import pytest

import pullback as torch
from pullback.optim import swa_utils


def model():
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))


def test_the_first_update_copies_and_later_ones_average():
    source = torch.nn.Linear(1, 1, bias=False)
    averaged = swa_utils.AveragedModel(source, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))
    values = []
    for value in (4.0, 8.0, 0.0):
        torch.nn.init.constant_(source.weight, value)
        averaged.update_parameters(source)
        values.append(averaged.module.weight.item())
    assert values == [4.0, 6.0, 3.0]
    assert averaged.n_averaged.item() == 3


def test_buffers_are_copied_or_averaged():
    for use_buffers, expected in ((False, 6.0), (True, 4.0)):
        source = model()
        averaged = swa_utils.AveragedModel(source, use_buffers=use_buffers)
        for value in (2.0, 6.0):
            source[1].running_mean.fill_(value)
            averaged.update_parameters(source)
        assert averaged.module[1].running_mean.tolist() == [expected] * 2


def test_state_dicts_have_torchs_names_and_can_be_loaded():
    averaged = swa_utils.AveragedModel(model())
    averaged.update_parameters(model())
    state = averaged.state_dict()
    assert next(iter(state)) == "n_averaged"
    assert "module.0.weight" in state
    other = swa_utils.AveragedModel(model())
    other.load_state_dict(state)
    assert other.n_averaged.item() == 1
    assert torch.equal(other.module[0].weight, averaged.module[0].weight)


def test_parameters_stay_leaves():
    source = model()
    averaged = swa_utils.AveragedModel(source, avg_fn=swa_utils.get_swa_avg_fn())
    for _ in range(2):
        averaged.update_parameters(source)
    assert all(p.is_leaf and p.requires_grad for p in averaged.parameters())


def test_two_ways_to_average_and_decays_out_of_range_are_refused():
    with pytest.raises(AssertionError, match="not both"):
        swa_utils.AveragedModel(model(), avg_fn=max, multi_avg_fn=max)
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)


def test_update_bn_leaves_models_without_batch_norm_alone():
    def failing():
        raise AssertionError("the data were read")
        yield

    swa_utils.update_bn(failing(), torch.nn.Linear(2, 2))


def test_update_bn_restores_mode_and_momentum():
    source = model().eval()
    swa_utils.update_bn([torch.ones(4, 2), torch.zeros(4, 2)], source)
    assert not source.training
    assert source[1].momentum == 0.1
    assert source[1].num_batches_tracked.item() == 2
