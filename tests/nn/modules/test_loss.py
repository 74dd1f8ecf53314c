"""Losses as modules."""

import math

import pytest

import pullback as torch
from pullback import nn
from pullback.nn import functional as F

SCORES = [[0.5, -1.0, 2.0]]


def test_cross_entropy_counts_the_weights_of_classes():
    weight = torch.tensor([0.5, 2.0, 1.0])
    loss = nn.CrossEntropyLoss(weight=weight, reduction="none")
    value = loss(torch.tensor(SCORES), torch.tensor([1])).item()
    total = sum(math.exp(score) for score in SCORES[0])
    assert value == pytest.approx(2.0 * (1.0 + math.log(total)))


WEIGHTED = [
    (nn.CrossEntropyLoss, F.cross_entropy, "classes"),
    (nn.NLLLoss, F.nll_loss, "classes"),
    (nn.MultiMarginLoss, F.multi_margin_loss, "classes"),
    (nn.BCELoss, F.binary_cross_entropy, "shares"),
    (nn.BCEWithLogitsLoss, F.binary_cross_entropy_with_logits, "shares"),
    (nn.MultiLabelSoftMarginLoss, F.multilabel_soft_margin_loss, "shares"),
]


@pytest.mark.parametrize(("kind", "function", "sort"), WEIGHTED)
def test_weight_is_used_saved_and_moved(kind, function, sort):
    weight = torch.tensor([0.5, 2.0, 1.0])
    input = torch.tensor([[0.2, 0.3, 0.9]])
    target = torch.tensor([1]) if sort == "classes" else torch.tensor([[1.0, 0.0, 1.0]])
    loss = kind(weight=weight, reduction="sum")
    assert torch.equal(loss(input, target), function(input, target, weight=weight, reduction="sum"))
    assert not torch.equal(loss(input, target), kind(reduction="sum")(input, target))
    assert list(loss.state_dict()) == ["weight"]
    assert loss.double().weight.dtype == torch.float64
    assert kind().weight is None


def test_pos_weight_is_used_and_saved():
    loss = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0]))
    assert loss(torch.zeros(1), torch.ones(1)).item() == pytest.approx(3 * math.log(2))
    assert list(loss.state_dict()) == ["pos_weight"]
