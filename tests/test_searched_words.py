"""The words by which programs filter torch's warnings and recognise its errors."""

import warnings

import pytest

import pullback as torch
from pullback.nn import functional as F  # noqa: N812 (as users write it)
from pullback.utils.data import DataLoader, IterableDataset


def resized(op, *args):
    return lambda: op(*args, out=torch.empty(1))


def twice(module, x):
    module.register_backward_hook(lambda *args: None)
    return module(x)


class Several(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.forward = forward


BEGINNINGS = {
    "An output with one or more elements was resized": [
        resized(torch.add, torch.ones(2), 1),
        resized(torch.sum, torch.ones(2, 2), 0),
        resized(torch.linalg.inv, torch.eye(2)),
        resized(torch.cat, [torch.ones(2)]),
    ],
    r"(std|var|std_mean|var_mean|cov)\(\): degrees of freedom is <= 0": [
        lambda: torch.std(torch.ones(1)),
        lambda: torch.ones(1).var(0),
        lambda: torch.var_mean(torch.ones(1)),
        lambda: torch.std_mean(torch.ones(2, 1), 1),
        lambda: torch.cov(torch.ones(2, 1)),
        lambda: torch.cov(torch.ones(2, 3), correction=5),
    ],
    "Complex modules are a new feature": [lambda: torch.nn.Linear(1, 1).to(torch.complex64)],
    "Using a target size .* Please ensure they have the same size": [
        lambda: F.mse_loss(torch.ones(2), torch.ones(2, 2)),
        lambda: F.l1_loss(torch.ones(2), torch.ones(2, 2)),
        lambda: F.smooth_l1_loss(torch.ones(2), torch.ones(2, 2)),
        lambda: F.huber_loss(torch.ones(2), torch.ones(2, 2)),
    ],
    "A window was not provided": [
        lambda: torch.stft(torch.ones(40), 8, return_complex=True),
        lambda: torch.istft(torch.ones(5, 9, dtype=torch.complex64), 8),
    ],
    "It is not recommended to create a MaskedTensor with a tensor that requires_grad": [
        lambda: torch.masked.masked_tensor(
            torch.ones(2, requires_grad=True), torch.tensor([True, False])
        )
    ],
    r"torch\.set_default_tensor_type\(\) is deprecated": [
        lambda: torch.set_default_tensor_type(torch.FloatTensor)
    ],
    "Using a non-full backward hook when": [
        lambda: twice(Several(lambda x: x.exp().sin()), torch.ones(1, requires_grad=True)),
        lambda: twice(Several(lambda x: (x.exp(), x.sin())), torch.ones(1, requires_grad=True)),
        lambda: twice(Several(lambda x: {"a": x.exp()}), torch.ones(1, requires_grad=True)),
    ],
}


@pytest.mark.parametrize(
    ("words", "call"), [(words, call) for words, calls in BEGINNINGS.items() for call in calls]
)
def test_a_warning_begins_with_the_words_that_programs_filter_by(words, call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", words)
        call()


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("Converting a tensor with requires_grad=True to a scalar may lead to unexpected", float),
        ("asarray", torch.asarray),
    ],
)
def test_warnings_that_are_given_once_begin_with_them_too(words, call):
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="^" + words):
            call(torch.ones(1, requires_grad=True))
    finally:
        torch.set_warn_always(False)


def test_a_hook_of_the_old_kind_that_sees_all_is_not_warned_of():
    x = torch.ones(1, requires_grad=True) * 1
    y = twice(Several(torch.exp), x)
    assert y.requires_grad


def test_a_second_backward_is_recognised():
    y = torch.ones(2, requires_grad=True).exp().sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time"):
        y.backward()


def test_a_value_that_was_overwritten_is_recognised():
    y = torch.ones(2, requires_grad=True).exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


class Longer(IterableDataset):
    def __iter__(self):
        return iter(range(4))

    def __len__(self):
        return 2


def test_more_batches_than_were_told_are_warned_of_once_somebody_asked():
    loader = DataLoader(Longer())
    assert len(list(loader)) == 4
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="2 batches"):
        list(loader)


def test_the_error_for_a_device_lists_types_as_programs_read_them():
    with pytest.raises(RuntimeError) as raised:
        torch.device("notadevice")
    named = str(raised.value).split("Expected one of ")[1].split(" device type")[0].split(", ")
    assert {"cpu", "cuda", "meta"} <= set(named)
    assert all(torch.device(name).type == name for name in named)
