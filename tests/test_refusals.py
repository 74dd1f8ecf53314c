"""Mistakes that torch refuses: silence would be a wrong answer."""

import pytest

import pullback as torch
from pullback import nn
from pullback.nn import functional as F  # noqa: N812 (as users write it)
from pullback.nn.utils import parametrize

LU, PIVOTS = torch.linalg.lu_factor(torch.tensor([[2.0, 1.0], [1.0, 3.0]]))
SIDE = torch.ones(2, 1)


def bags(*indices, **options):
    return F.embedding_bag(
        torch.tensor(indices), torch.ones(10, 3), torch.tensor([0]), mode="sum", **options
    )


def on_meta(kind):
    return lambda: kind([nn.Parameter(torch.ones(2, device="meta"))], lr=0.1, fused=True)


def inverted(change):
    class Changing(nn.Module):
        def forward(self, x):
            return x

        def right_inverse(self, x):
            return change(x)

    return lambda: parametrize.register_parametrization(nn.Linear(2, 2), "weight", Changing())


def hooked_twice():
    module, hook = nn.Linear(1, 1), lambda *args: None
    module.register_state_dict_post_hook(hook)
    module._register_state_dict_hook(hook)


REFUSED = {
    "meshgrid of two dtypes": (
        lambda: torch.meshgrid(torch.ones(2), torch.arange(2), indexing="ij"),
        RuntimeError,
    ),
    "meshgrid of two devices": (
        lambda: torch.meshgrid(torch.ones(2), torch.ones(2, device="meta"), indexing="ij"),
        RuntimeError,
    ),
    **{
        f"pivots {wrong} of {name}": (lambda call=call, wrong=wrong: call(PIVOTS * 0 + wrong), kind)
        for wrong in (0, 5, -1)
        for name, call, kind in (
            ("linalg.lu_solve", lambda p: torch.linalg.lu_solve(LU, p, SIDE), RuntimeError),
            ("lu_solve", lambda p: torch.lu_solve(SIDE, LU, p), RuntimeError),
            ("lu_unpack", lambda p: torch.lu_unpack(LU, p), RuntimeError),
        )
    },
    "pivots 0 of ldl_solve": (
        lambda: torch.linalg.ldl_solve(LU, PIVOTS * 0, SIDE),
        RuntimeError,
    ),
    "pivots 5 of ldl_solve": (
        lambda: torch.linalg.ldl_solve(LU, PIVOTS * 0 + 5, SIDE),
        RuntimeError,
    ),
    "too many elements of tau": (
        lambda: torch.ormqr(torch.ones(1, 2), torch.ones(2), torch.ones(1, 2)),
        RuntimeError,
    ),
    "an index into nothing": (
        lambda: torch.index_select(torch.zeros(0, 5), 1, torch.tensor([5])),
        RuntimeError,
    ),
    "a tensor as a shape": (
        lambda: torch.unravel_index(torch.tensor([1]), torch.tensor([2, 2])),
        TypeError,
    ),
    "a complex number for bools": (
        lambda: torch.ones(2, dtype=torch.bool).index_fill_(0, torch.tensor([0]), 1j),
        RuntimeError,
    ),
    "padding beyond the table": (lambda: bags(0, 1, padding_idx=10), RuntimeError),
    "padding before the table": (lambda: bags(0, 1, padding_idx=-11), RuntimeError),
    "a bag of unknown rows": (lambda: bags(0, 12), RuntimeError),
    "slopes without an end": (lambda: F.rrelu(torch.ones(2), 0.1, float("inf")), RuntimeError),
    "slopes that are none": (lambda: F.rrelu(torch.ones(2), float("nan"), 0.1), RuntimeError),
    "windows of nothing": (lambda: nn.FractionalMaxPool3d(0, output_size=1), ValueError),
    **{
        f"fused {kind.__name__} on meta": (on_meta(kind), RuntimeError)
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)
    },
    "threads beyond counting": (lambda: torch.set_num_threads(2**65), ValueError),
    "a class of a type that makes tensors": (
        lambda: type("Mine", (torch.FloatTensor,), {}),
        TypeError,
    ),
    "an inverse elsewhere": (inverted(lambda x: x.to("meta")), ValueError),
    "an inverse of another dtype": (inverted(lambda x: x.double()), ValueError),
    "one function as both hooks": (hooked_twice, RuntimeError),
    "lengths in a table": (
        lambda: nn.utils.rnn.pack_padded_sequence(torch.ones(2, 2, 1), torch.tensor([[2, 1]])),
        RuntimeError,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_refused(name):
    call, kind = REFUSED[name]
    with pytest.raises(kind):
        call()


def test_what_is_right_beside_them_is_taken():
    assert bags(0, 1, 2, padding_idx=-10).tolist() == [[2, 2, 2]]
    P, L, U = torch.lu_unpack(LU, PIVOTS * 0, unpack_pivots=False)  # noqa: N806 (their names)
    assert P.numel() == 0
    torch.testing.assert_close(L @ U, torch.tensor([[2.0, 1.0], [1.0, 3.0]]))
    assert torch.index_select(torch.zeros(0, 5), 1, torch.tensor([4, 0])).shape == (0, 2)
