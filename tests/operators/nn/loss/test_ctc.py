"""The loss of labels under frames: blanks among the labels, and what is refused."""

import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck

ctc_loss = torch.nn.functional.ctc_loss


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("target", [[1, 2, 0], [1, 0, 2], [0, 1, 2], [0, 0, 1], [1, 0, 1]])
def test_a_blank_among_the_labels_is_a_label_like_others(target, reduction):
    x = torch.randn(6, 1, 3, dtype=torch.float64, requires_grad=True)

    def loss(x):
        scores = torch.log_softmax(x, -1)
        return ctc_loss(scores, torch.tensor([target]), (6,), (3,), reduction=reduction)

    assert loss(x).isfinite().all()
    assert gradcheck(loss, (x,))


SCORES = torch.zeros(5, 2, 4)
LABELS = torch.ones(2, 2, dtype=torch.int64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
@pytest.mark.parametrize("place", [0, 1])
def test_lengths_that_are_no_integers_are_refused(dtype, place):
    lengths = [torch.tensor([5, 5]), torch.tensor([2, 2])]
    lengths[place] = lengths[place].to(dtype)
    with pytest.raises(RuntimeError, match="must be integers"):
        ctc_loss(SCORES, LABELS, *lengths)


@pytest.mark.parametrize("shape", [(5, 0, 4), (0, 2, 4)])
def test_no_frames_or_examples_are_refused(shape):
    lengths = [0] * shape[1]
    with pytest.raises(RuntimeError, match="no elements"):
        ctc_loss(torch.zeros(shape), LABELS[: shape[1]], lengths, lengths)
