"""Taking a module's state out, and putting one in."""

import copy
import gc
import pickle
import weakref

import pytest

import pullback as torch
from pullback import nn


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.other = nn.Linear(1, 1)


def test_a_name_below_a_parameter_is_unexpected():
    module = Pair()
    state = dict(module.state_dict())
    state["fc.weight.bad"] = torch.ones(1)
    with pytest.raises(RuntimeError, match=r"fc\.weight\.bad"):
        module.load_state_dict(state)
    assert module.load_state_dict(state, strict=False).unexpected_keys == ["fc.weight.bad"]


def test_the_name_of_a_module_is_no_name_of_a_tensor():
    module = Pair()
    found = module.load_state_dict({"fc": torch.ones(1)}, strict=False)
    assert found.unexpected_keys == ["fc"]


def test_one_element_fits_a_number():
    module = nn.Module()
    module.number = nn.Parameter(torch.tensor(1.0))
    module.load_state_dict({"number": torch.tensor([3.0])})
    assert module.number.item() == 3.0
    assert module.number.shape == ()


def test_a_hook_of_a_child_sees_its_part_of_the_state():
    module, seen = Pair(), []
    module.fc.register_load_state_dict_pre_hook(lambda m, state, *rest: seen.extend(state))
    module.load_state_dict(module.state_dict())
    assert seen == ["fc.weight", "fc.bias"]


def test_loading_leaves_nothing_to_the_collector():
    gc.collect()
    gc.disable()
    try:
        module = Pair()
        state = module.state_dict()
        mark = weakref.ref(state)
        module.load_state_dict(state)
        del state
        assert mark() is None
    finally:
        gc.enable()


def test_values_of_another_type_are_told_with_the_rest():
    with pytest.raises(RuntimeError, match=r"fc\.weight: a Tensor is needed"):
        Pair().load_state_dict({"fc.weight": 3}, strict=False)


def test_loading_into_the_meta_device_warns_unless_assigned():
    module, state = nn.Linear(2, 2, device="meta"), nn.Linear(2, 2).state_dict()
    with pytest.warns(UserWarning, match="assign=True"):
        module.load_state_dict(state)
    assert module.weight.is_meta
    module.load_state_dict(state, assign=True)
    assert torch.equal(module.weight, state["weight"])
    assert isinstance(module.weight, nn.Parameter)


def test_an_assigned_parameter_keeps_the_flag_of_the_module():
    module = nn.Linear(2, 2).requires_grad_(False)
    given = nn.Linear(2, 2)
    module.load_state_dict(dict(given.named_parameters()), assign=True)
    assert module.weight is given.weight
    assert not module.weight.requires_grad


def with_hook(module, *rest):
    module.hooked = True


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_hooks_with_their_module_follow_a_copy(how):
    module = nn.Linear(1, 1)
    module.register_load_state_dict_pre_hook(with_hook)
    again = how(module)
    again.load_state_dict(module.state_dict())
    assert again.hooked
    assert not hasattr(module, "hooked")


def test_swapped_parameters_stay_the_same_objects():
    module = nn.Linear(2, 2)
    before = module.weight
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        module.double()
        assert module.weight is before
        assert before.dtype == torch.float64
        state = nn.Linear(2, 2).double().state_dict()
        module.load_state_dict(state)
        assert module.weight is before
        assert torch.equal(before, state["weight"])
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
