"""Errors of construction and of shapes name what the user wrote, not what it is made of."""

import pytest

import pullback as torch

nn = torch.nn


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("Conv2d", (1, 2)),
        ("ConvTranspose1d", (1, 2)),
        ("BatchNorm1d", (3,)),
        ("InstanceNorm3d", (3,)),
        ("LSTMCell", (2, 3)),
        ("ReflectionPad2d", ()),
        ("TransformerEncoderLayer", (4, 2)),
        ("Linear", (1, 2)),
    ],
)
def test_an_unknown_keyword_is_told_by_the_public_class(name, args):
    with pytest.raises(TypeError, match=rf"^{name}(\.__init__)?\(\) .*'wrong'"):
        getattr(nn, name)(*args, wrong=3)


def test_a_subclass_of_a_users_keeps_its_own_name():
    class Own(nn.Conv2d):
        pass

    with pytest.raises(TypeError, match=r"Conv2d\.__init__\(\)"):
        Own(1, 2, wrong=3)
    assert Own(1, 2, 3).kernel_size == (3, 3)


def test_the_module_in_a_note_has_its_brackets_closed():
    with pytest.raises(RuntimeError) as caught:
        nn.Sequential(nn.Conv2d(3, 8, 3))(torch.ones(1, 4, 8, 8))
    assert caught.value.__notes__ == ["in the module 0: Conv2d(3, 8, (3, 3))"]


def test_features_that_do_not_fit_are_counted_as_the_layer_was_made():
    with pytest.raises(RuntimeError, match=r"takes 100 features .* the input has 5408"):
        nn.Linear(100, 10)(torch.ones(4, 5408))
