"""What of a user's class of tensors a pickle keeps: its own state, attributes, slots."""

import copy
import io
import pickle

import pytest

import pullback as torch


class WithState(torch.Tensor):
    def __getstate__(self):
        return {"mine": 7}

    def __setstate__(self, state):
        self.got = state


class WithSlots(torch.Tensor):
    __slots__ = ("left", "right")


class WithDefault(torch.Tensor):
    scale = 1.0


def saved(x, **options):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, **options)


def safely(x):
    with torch.serialization.safe_globals([type(x)]):
        return saved(x)


WAYS = [
    lambda x: saved(x, weights_only=False),
    safely,
    lambda x: pickle.loads(pickle.dumps(x)),
    copy.copy,
]


@pytest.mark.parametrize("way", WAYS)
def test_a_class_says_itself_what_is_kept(way):
    made = way(torch.ones(2).as_subclass(WithState))
    assert type(made) is WithState
    assert made.got == {"mine": 7}
    assert made.tolist() == [1, 1]


@pytest.mark.parametrize("way", [*WAYS, copy.deepcopy])
def test_slots_and_attributes_go_along(way):
    x = torch.ones(2).as_subclass(WithSlots)
    x.left, x.other = 5, "z"
    made = way(x)
    assert (type(made), made.left, made.other) == (WithSlots, 5, "z")
    assert not hasattr(made, "right")


@pytest.mark.parametrize("way", [*WAYS, copy.deepcopy])
def test_attributes_over_a_default_of_the_class_go_along(way):
    x = torch.ones(2).as_subclass(WithDefault)
    x.scale = 2.0
    assert way(x).scale == 2.0


@pytest.mark.parametrize("name", ["shape", "_array", "backward", "__class__"])
def test_a_file_sets_nothing_that_is_ours(name):
    x = torch.ones(2).as_subclass(WithDefault)
    x.harmless_name = 1
    file = io.BytesIO()
    torch.save(x, file, _use_new_zipfile_serialization=False)
    raw = file.getvalue().replace(
        b"\x0d\0\0\0harmless_name", len(name).to_bytes(4, "little") + name.encode()
    )
    with (
        torch.serialization.safe_globals([WithDefault]),
        pytest.raises(pickle.UnpicklingError, match="not its to set"),
    ):
        torch.load(io.BytesIO(raw))


def test_classes_with_slots_are_results_of_operators():
    x = torch.ones(2, requires_grad=True).as_subclass(WithSlots)
    y = (x * 3).sum()
    assert type(y) is WithSlots
    y.backward()
    assert torch.ones(2).as_subclass(WithSlots).add_(1).tolist() == [2, 2]
