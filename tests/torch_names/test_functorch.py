"""functorch's older surface: settings, compilers by their first names, names of graphs."""

from pullback.functorch import compile as older

import pullback as torch


def _sines(a, b):
    return (a * b).sin().sum()


def test_settings_are_one_object_under_all_their_names():
    from pullback._functorch import config

    assert older.config is config
    assert config.debug_assert is False
    with config.patch(debug_assert=True, functionalize_rng_ops=True):
        assert config.debug_assert
    assert not config.debug_assert


def test_older_names_are_the_same_functions():
    assert older.compiled_function is older.aot_function
    assert older.compiled_module is older.aot_module


def test_scripted_graphs_give_what_the_function_gives():
    for compiled in (older.nnc_jit(_sines), older.memory_efficient_fusion(_sines)):
        x = torch.linspace(0, 1, 3).requires_grad_()
        y = x.detach().clone().requires_grad_()
        compiled(x, x).backward()
        _sines(y, y).backward()
        torch.testing.assert_close(x.grad, y.grad)


def test_a_module_is_fused_with_its_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.SiLU())
    fused = older.memory_efficient_fusion(model)
    x = torch.randn(4, 3)
    torch.testing.assert_close(fused(x), model(x))
    fused(x).sum().backward()
    assert model[0].weight.grad is not None


def test_a_debugged_graph_is_printed_and_runs(capsys):
    f = older.aot_function(lambda x: x.sin() * 2, older.debug_compile)
    torch.testing.assert_close(f(torch.ones(2)), torch.ones(2).sin() * 2)
    assert "aten.sin" in capsys.readouterr().out


def test_compilers_are_told_which_graph_they_compile():
    seen = []

    def compiler(module, examples):
        seen.append((older.get_aot_graph_name(), older.get_aot_compilation_context()[0]))
        return module

    x = torch.ones(2, requires_grad=True)
    older.aot_function(_sines, compiler)(x, x).backward()
    (first, forward), (second, backward) = seen
    assert first != second
    assert forward[0].endswith("_forward")
    assert backward[0].endswith("_backward")
    assert older.get_graph_being_compiled() == "model___0"


def test_default_decompositions_leave_no_activation_in_the_graph():
    from pullback.fx.experimental.proxy_tensor import make_fx

    table = older.default_decompositions
    made = make_fx(lambda x: torch.nn.functional.hardswish(x), table)(torch.randn(3))
    targets = {node.target for node in made.graph.nodes}
    assert not targets & set(table)
    x = torch.randn(3)
    torch.testing.assert_close(made(x), torch.nn.functional.hardswish(x))
