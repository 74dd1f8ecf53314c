"""Functions of several operators, and factories, as ranges of a profile."""

import pullback as torch
from pullback.autograd.profiler import profile


def one(prof, name):
    (event,) = [event for event in prof.function_events if event.name == name]
    return event


def test_what_users_call_is_a_range_around_its_operators():
    x, w = torch.ones(2, 4), torch.ones(4)
    with profile() as prof:
        torch.nn.functional.layer_norm(x, (4,), w)
        torch.rand(3, 4).resize_(3, 2)
        torch.linalg.norm(x)
    layer_norm, native = one(prof, "aten::layer_norm"), one(prof, "aten::native_layer_norm")
    assert native.cpu_parent is layer_norm
    assert layer_norm.cpu_parent is None
    for name in ("aten::rand", "aten::resize_", "aten::linalg_norm"):
        event = one(prof, name)
        assert event.cpu_parent is None
        assert event.sequence_nr == -1


def test_a_function_around_the_operator_of_its_name_is_one_call():
    x = torch.ones(3, requires_grad=True)
    with profile(record_shapes=True, profile_memory=True) as whole:
        y = torch.nn.functional.mse_loss(x, torch.ones(3))
    with profile() as prof:
        for _ in range(3):
            torch.nn.functional.mse_loss(x, x)
            x.softmax(0)
    counts = {row.key: row.count for row in prof.key_averages()}
    assert counts == {"aten::mse_loss": 3, "aten::softmax": 3}
    event = one(whole, "aten::mse_loss")
    assert event.sequence_nr == y.grad_fn._sequence_nr()
    assert event.cpu_memory_usage > 0


def test_functions_have_their_own_code_after_a_profile():
    functions = (torch.nn.functional.layer_norm, torch.zeros, torch.rand)
    before = [function.__code__ for function in functions]
    with profile():
        torch.zeros(2)
    assert [function.__code__ for function in functions] == before
