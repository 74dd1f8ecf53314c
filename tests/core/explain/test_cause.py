"""The reason for having no gradient travels through operators, to the error of backward()."""

import inspect
import re

import numpy as np
import pytest

import pullback as torch
from pullback import nn
from pullback.core.explain.cause import cause_of


def linear():
    torch.manual_seed(0)
    return nn.Linear(3, 2)


DATA = [[0.5, -1.0, 2.0]]


def under_no_grad():
    layer, x = linear(), torch.tensor(DATA)
    with torch.no_grad():  # the cut
        hidden = layer(x)
    return (hidden * 2).pow(2).mean()


def detached():
    layer, x = linear(), torch.tensor(DATA)
    hidden = layer(x).detach()  # the cut
    return torch.relu(hidden + x.sum()).sum()


def through_numpy():
    layer, x = linear(), torch.tensor(DATA)
    hidden = np.tanh(layer(x).detach().numpy())
    hidden = torch.from_numpy(hidden)  # the cut
    return (hidden * torch.tensor(2.0)).sum()


def picked_by_argmax():
    layer, x = linear(), torch.tensor(DATA)
    best = layer(x).argmax(1)  # the cut
    return ((best - torch.tensor([1])).float() ** 2).mean()


def frozen():
    layer, x = linear(), torch.tensor(DATA)
    for p in layer.parameters():
        p.requires_grad = False  # the cut
    return torch.nn.functional.mse_loss(layer(x).tanh(), torch.zeros(1, 2))


def by_data():
    layer, x = linear(), torch.tensor(DATA)
    hidden = x @ layer.weight.data.t()  # the cut
    return hidden.exp().log_softmax(1)[0, 0]


def by_tolist():
    layer, x = linear(), torch.tensor(DATA)
    values = layer(x)[0].tolist()  # the cut
    return torch.tensor([2 * v for v in values]).sum()


def rebuilt():
    layer, x = linear(), torch.tensor(DATA)
    out = layer(x)
    loss = torch.tensor([out[0, 0] * 2, out[0, 1]])  # the cut
    return loss.sum()


def accuracy_as_loss():
    layer, x = linear(), torch.tensor(DATA)
    _, predicted = layer(x).max(1)  # the cut
    return (predicted == torch.tensor([0])).float().mean()


def threshold():
    layer, x = linear(), torch.tensor(DATA)
    on = layer(x) > 0  # the cut
    return on.float().mean() - 0.5


def whole_numbers():
    layer, x = linear(), torch.tensor(DATA)
    counts = layer(x).long()  # the cut
    return (counts.float() - 1).abs().sum()


def summed_items():
    layer, x = linear(), torch.tensor(DATA)
    total = 0.0
    for one in layer(x)[0]:
        total += one.item()  # the cut
    return torch.tensor(total) / 2


def gathered_in_a_buffer():
    layer, x = linear(), torch.tensor(DATA)
    out = torch.zeros(2, 2)
    for i in range(2):
        out[i] = layer(x)[0].detach()  # the cut
    return out.mean()


def added_in_place():
    layer, x = linear(), torch.tensor(DATA)
    total = torch.zeros(())
    total += layer(x).sum().detach()  # the cut
    return total * 3


def in_inference_mode():
    layer, x = linear(), torch.tensor(DATA)
    with torch.inference_mode():
        hidden = layer(x)
    return (hidden * 2).sum()


MISTAKES = [
    under_no_grad,
    detached,
    through_numpy,
    picked_by_argmax,
    frozen,
    by_data,
    by_tolist,
    rebuilt,
    accuracy_as_loss,
    threshold,
    whole_numbers,
    summed_items,
    gathered_in_a_buffer,
    added_in_place,
]


def cut_line(mistake):
    lines, start = inspect.getsourcelines(mistake)
    return start + next(i for i, line in enumerate(lines) if "# the cut" in line)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_error_of_backward_names_the_line_that_cut_the_history(mistake):
    loss = mistake()
    with pytest.raises(RuntimeError, match="does not require grad") as raised:
        loss.backward()
    assert str(raised.value).endswith(loss.why_no_grad())
    places = re.findall(r"test_cause\.py:(\d+)", loss.why_no_grad())
    assert str(cut_line(mistake)) in places


def test_what_comes_from_inference_mode_says_so():
    assert "made in inference_mode" in in_inference_mode().why_no_grad()


def test_constants_stand_back_behind_what_was_cut():
    x = torch.ones(2, requires_grad=True)
    constant, cut = torch.tensor([1.0, 2.0]), x.detach()
    for mixed in (constant + cut, cut + constant, torch.stack([constant, cut]), constant * 2 + cut):
        assert "detach()" in mixed.why_no_grad()
    assert "leaf made by tensor()" in (constant * 2).why_no_grad()


@pytest.mark.parametrize(
    "step",
    [
        lambda h: h.reshape(1, 2) + 1,
        lambda h: torch.cat([h, h]),
        lambda h: h.sort().values,
        lambda h: h.double(),
        lambda h: torch.where(h > 0, h, torch.zeros(2)),
        lambda h: h.clone().mul_(2),
        lambda h: h[torch.tensor([0, 1])],
        lambda h: torch.addmm(torch.zeros(2, 2), h[:, None], h[None]),
        lambda h: nn.functional.layer_norm(h, (2,)),
        lambda h: torch.einsum("i,i->", h, h),
        lambda h: h.split(1)[0] * 1.0,
        lambda h: Double.apply(h),
    ],
)
def test_every_way_of_an_operator_passes_it_on(step):
    h = torch.ones(2, requires_grad=True).detach()
    assert "detach() at test_cause.py" in step(h).why_no_grad()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("values", [1, 2])
def test_what_is_written_in_place_tells_it_of_the_target(values):
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        u = w * 2  # whose counter is a note and nothing else
        if values == 2:
            u.add_(1)  # and has counted a write
    for write in (lambda z: z.add_(u), lambda z: z.add_(u, alpha=2), lambda z: z.addcmul_(u, u)):
        z = torch.zeros(3)
        write(z)
        assert "grad mode off" in z.why_no_grad()
    z = torch.zeros(3).add_(torch.ones(3))
    assert "grad mode off" not in z.why_no_grad()


def test_the_recorded_way_has_nothing_of_it():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * torch.tensor([1.0, 2.0])
    assert y._cell is torch.ones(1)._cell
    assert vars(y) == {}


def test_a_frozen_parameter_trains_again():
    x = torch.ones(2, requires_grad=True)
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert "leaf that requires grad" in x.why_no_grad()


def test_it_travels_where_saved_values_are_given_to_hooks():
    h = torch.ones(2, requires_grad=True).detach()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        results = [h * 2, h.exp(), h.max(0).values, torch.cat([h, h]), h * h]
    for one in results:
        assert "detach() at test_cause.py" in one.why_no_grad()


def test_a_join_tells_the_reason_that_explains_most_wherever_it_stands():
    made = torch.tensor([1.0])
    cut = torch.ones(1, requires_grad=True).detach()
    fresh, written = torch.zeros(1), torch.zeros(1)
    written.add_(1)
    for others in ([made], [fresh], [written], [made, fresh, written]):
        for joined in (torch.cat([*others, cut]), torch.cat([cut, *others])):
            assert cause_of(joined) is cause_of(cut)
    first, second = torch.tensor([1.0]), torch.tensor([2.0])
    assert cause_of(torch.stack([first, second])) is cause_of(first)
    assert cause_of(torch.stack([fresh, second])) is cause_of(second)
    assert cause_of(torch.cat([fresh, fresh])) is None


def test_a_result_of_a_call_that_nobody_made_has_no_line():
    """As in `python -m` of a module of the package, where every frame is the package's own."""
    from pullback.core import origin
    from pullback.core.explain.cause import ended_at

    assert ended_at("max", origin._NOBODY) == ended_at("max", None)
