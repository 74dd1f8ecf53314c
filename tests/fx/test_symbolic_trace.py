"""Tracing: what becomes a node, what is refused with its line, and what is fixed beforehand."""

import math
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import pullback as torch
from pullback import fx, nn
from pullback.fx._symbolic_trace import is_fx_tracing
from pullback.fx.proxy import TraceError
from pullback.operators.dispatch.asking import WATCH


@fx.wrap
def twice(x):
    return x + x


fx.wrap("len")


def test_wrapped_function_is_one_node():
    traced = fx.symbolic_trace(lambda x: twice(x) + 1)
    assert [node.name for node in traced.graph.nodes] == ["x", "twice", "add", "output"]
    assert traced(torch.tensor(2.0)).item() == 5
    assert twice(2) == 4


def test_wrapped_builtin_is_recorded_and_put_back():
    traced = fx.symbolic_trace(lambda x: x * len(x))
    assert torch.equal(traced(torch.ones(3)), torch.full((3,), 3.0))
    assert "len" not in globals()


def test_functions_of_math_are_recorded():
    traced = fx.symbolic_trace(lambda x: math.sqrt(x))
    assert traced(4.0) == 2.0
    assert math.sqrt(9.0) == 3.0


def test_wrap_inside_a_function_is_refused():
    with pytest.raises(NotImplementedError, match="top of a module"):
        fx.wrap("something")


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        (lambda x: x if x > 0 else -x, TraceError),
        (lambda x: [one for one in x], TraceError),  # noqa: C416 (the loop is what must not trace)
        (lambda x: torch.relu(*x), TraceError),
        (lambda x: x and 1, TraceError),
        (lambda x: x.__len__(), RuntimeError),
    ],
)
def test_what_cannot_be_traced_names_the_line(program, kind):
    with pytest.raises(kind, match=r"test_symbolic_trace\.py:\d+"):
        fx.symbolic_trace(program)


def test_nothing_is_left_patched_when_a_trace_fails():
    before = nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(TraceError):
        fx.symbolic_trace(lambda x: bool(x))
    assert (nn.Module.__call__, nn.Module.__getattr__) == before


def test_functions_ask_only_while_proxies_live():
    active = WATCH._active
    traced = fx.symbolic_trace(lambda x: torch.relu(x).view(-1) + 1)
    assert WATCH._active == active
    proxy = fx.Proxy(fx.Graph().placeholder("x"))
    assert torch.add(proxy, 1).node.name == "add"
    del proxy
    assert WATCH._active == active
    assert traced(torch.tensor([-1.0])).item() == 1


def test_unpacking_takes_items_by_number():
    def program(x):
        a, b = x.chunk(2)
        return a - b

    assert fx.symbolic_trace(program)(torch.tensor([3.0, 1.0])).item() == 2


def test_concrete_argument_is_fixed_and_checked():
    def program(x, flag=True):
        return x + 1 if flag else x - 1

    traced = fx.symbolic_trace(program, concrete_args={"flag": False})
    assert traced(torch.tensor(1.0), False).item() == 0
    with pytest.raises(AssertionError, match="flag"):
        traced(torch.tensor(1.0), True)


def test_concrete_none_is_checked():
    traced = fx.symbolic_trace(lambda x, y=None: x if y is None else y, concrete_args={"y": None})
    assert traced(1, None) == 1
    with pytest.raises(AssertionError, match="y"):
        traced(1, 2)


def test_placeholder_in_nested_concrete_arguments_is_traced():
    def program(x, d):
        return {"sum": x + d["a"], "both": (x, d["b"])}

    traced = fx.symbolic_trace(program, concrete_args={"d": {"a": fx.PH, "b": fx.PH}})
    assert traced(1, {"a": 2, "b": 3}) == {"sum": 3, "both": (1, 3)}
    assert fx.Interpreter(traced).run(1, {"a": 2, "b": 3}) == {"sum": 3, "both": (1, 3)}


def test_number_of_concrete_arguments_is_checked():
    with pytest.raises(RuntimeError, match="concrete"):
        fx.symbolic_trace(lambda x: x, concrete_args=(1, 2))


def test_concrete_object_is_fixed_with_a_warning():
    with pytest.warns(UserWarning, match="thing"):
        traced = fx.symbolic_trace(
            lambda x, thing: x + thing.real, concrete_args={"thing": complex(2, 1)}
        )
    assert traced(1, None) == 3


def test_subclass_decides_about_leaves_and_sees_paths():
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return module_qualified_name == "inner"

    model = nn.Sequential()
    model.add_module("inner", nn.Sequential(nn.ReLU(), nn.Tanh()))
    model.add_module("outer", nn.Sequential(nn.Identity()))
    graph = Whole().trace(model)
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["inner"]


def test_shapes_of_parameters_may_be_constant():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 3))

        def forward(self, x):
            return x * self.weight.shape[0] if self.weight.dim() == 2 else x

    graph = fx.Tracer(param_shapes_constant=True).trace(Net())
    assert next(n.args for n in graph.nodes if n.name == "mul")[1] == 2


def test_buffers_are_nodes_where_the_tracer_says_so():
    class Buffers(fx.Tracer):
        proxy_buffer_attributes = True

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("shift", torch.ones(2))

        def forward(self, x):
            return self.shift.sum() + x

    ops = [node.op for node in Buffers().trace(Net()).nodes]
    assert ops == ["placeholder", "get_attr", "call_method", "call_function", "output"]


def test_asserts_are_recorded_where_the_tracer_says_so():
    class Asserting(fx.Tracer):
        trace_asserts = True

    # As text: pytest rewrites the assertions of its own files.
    scope = {}
    exec("def program(x):\n    assert x.sum() > 0, 'too small'\n    return x", scope)
    traced = fx.GraphModule(nn.Module(), Asserting().trace(scope["program"]))
    assert traced(torch.ones(1)).item() == 1
    with pytest.raises(AssertionError, match="too small"):
        traced(-torch.ones(1))


def test_stack_traces_are_recorded_where_the_tracer_says_so():
    class Recording(fx.Tracer):
        record_stack_traces = True

    graph = Recording().trace(lambda x: x + 1)
    assert "test_symbolic_trace.py" in graph.find_nodes(op="output")[0].args[0].stack_trace


def test_parameter_of_another_module_is_refused():
    foreign = nn.Parameter(torch.ones(1))
    with pytest.raises(NameError, match="parameter"):
        fx.symbolic_trace(lambda x: x + foreign)


def test_hooks_of_a_module_are_traced():
    model = nn.Sequential(nn.Sequential(nn.ReLU()))
    model[0].register_forward_hook(lambda module, args, out: out * 2)
    assert fx.symbolic_trace(model)(torch.ones(1)).item() == 2


def test_tracing_is_known_inside():
    seen = []
    fx.symbolic_trace(lambda x: seen.append(is_fx_tracing()))
    assert seen == [True]
    assert not is_fx_tracing()


def test_feature_extractor_as_vision_libraries_build_it():
    class Leaves(fx.Tracer):
        def __init__(self, leaf_modules):
            super().__init__()
            self.leaf_modules, self.names = leaf_modules, {}

        def is_leaf_module(self, m, module_qualified_name):
            return super().is_leaf_module(m, module_qualified_name) or type(m) in self.leaf_modules

        def create_proxy(self, *args, **kwargs):
            proxy = super().create_proxy(*args, **kwargs)
            self.names[proxy.node] = self.scope.module_path or proxy.node.name
            return proxy

        def call_module(self, m, forward, args, kwargs):
            return super().call_module(m, forward, args, kwargs)

    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).eval()
    tracer = Leaves({nn.Linear})
    graph = tracer.trace(model)
    module = fx.GraphModule(tracer.root, graph, "Features")
    old = module.graph.output_node()
    wanted = {"1": "early", "3": "late"}
    nodes = {
        wanted[tracer.names[n]]: n for n in module.graph.nodes if tracer.names.get(n) in wanted
    }
    module.graph.erase_node(old)
    module.graph.output(nodes)
    module.graph.eliminate_dead_code()
    module.recompile()
    x = torch.ones(1, 1, 4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = module(x)
    assert torch.equal(features["early"], model[1](model[0](x)))
    assert torch.equal(features["late"], model(x))


def test_threads_trace_at_once_each_its_own_program():
    class Inner(nn.Module):
        def __init__(self, wait):
            super().__init__()
            self.linear, self.wait = nn.Linear(2, 2), wait

        def forward(self, x):
            self.wait()  # here all of them are inside
            return torch.relu(self.linear(x))

    both = threading.Barrier(3, timeout=60)
    models = [Inner(both.wait) for _ in range(3)]
    usual = nn.Module.__call__, nn.Module.__getattr__
    with ThreadPoolExecutor(3) as pool:
        traced = list(pool.map(fx.symbolic_trace, models))
    x = torch.ones(1, 2)
    for model, graph in zip(models, traced, strict=True):
        assert [node.op for node in graph.graph.nodes] == [
            *("placeholder", "call_module", "call_function", "output")
        ]
        model.wait = lambda: None
        assert torch.equal(graph(x), model(x))
    assert (nn.Module.__call__, nn.Module.__getattr__) == usual


def test_a_module_is_called_as_usual_while_another_thread_traces():
    inside, end = threading.Event(), threading.Event()

    class Waiting(nn.Module):
        def forward(self, x):
            inside.set()
            end.wait(30)
            return x + 1

    with ThreadPoolExecutor(1) as pool:
        traced = pool.submit(fx.symbolic_trace, Waiting())
        inside.wait(30)
        assert not is_fx_tracing()
        linear = nn.Linear(2, 2)
        assert linear(torch.ones(1, 2)).shape == (1, 2)
        end.set()
        assert torch.equal(traced.result()(torch.ones(1)), torch.tensor([2.0]))


def test_a_parameter_that_is_called_as_a_builtin_does_not_hide_it():
    traced = fx.symbolic_trace(lambda x, slice, tuple: x[1:2] + slice + tuple)
    assert traced(torch.ones(3), 1, 2).tolist() == [4.0]
