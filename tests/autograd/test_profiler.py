"""The profiler: what it records, how events nest and link, its tables and files."""

import gzip
import json
import threading
import time
import weakref

import pytest

import pullback as torch
from pullback.autograd import profiler
from pullback.autograd.profiler import profile, record_function
from pullback.autograd.profiler_util import FunctionEvent, Interval
from pullback.engine import request as entry


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * 2, None


double = Double.apply


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def names(prof):
    return [event.name for event in prof.function_events]


def one(prof, name):
    (event,) = [event for event in prof.function_events if event.name == name]
    return event


def test_operators_appear_under_torchs_names_in_order():
    """B-87"""
    x = leaf(3)
    with profile() as prof:
        y = x.exp().view(3, 1)
        with torch.no_grad():
            y.add_(1)
    assert names(prof) == ["aten::exp", "aten::view", "aten::add_"]


def test_nodes_appear_inside_their_evaluation_with_the_forwards_sequence_number():
    """E-164, B-88"""
    x = leaf(3)
    with profile() as prof:
        x.exp().sum().backward()
    forward, node = one(prof, "aten::exp"), one(prof, "ExpBackward0")
    assert forward.sequence_nr == node.sequence_nr >= 0
    outer = node.cpu_parent
    assert outer.name == "autograd::engine::evaluate_function: ExpBackward0"
    assert outer.sequence_nr == node.sequence_nr
    assert node.fwd_thread == forward.thread
    assert node.scope == 1
    assert one(prof, "torch::autograd::AccumulateGrad").sequence_nr == -1


def test_a_function_appears_under_its_name_and_links_to_its_backward():
    """F-110"""
    x = leaf(3, 4)
    with profile(record_shapes=True) as prof:
        double(x, 2.0).sum().backward()
    forward, node = one(prof, "Double"), one(prof, "DoubleBackward")
    assert forward.sequence_nr == node.sequence_nr
    assert forward.input_shapes == [[3, 4], []]
    assert forward.concrete_inputs == [None, 2.0]
    assert [event.name for event in forward.cpu_children] == ["aten::mul"]
    assert [event.name for event in node.cpu_children] == ["aten::mul"]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("hooked", [False, True])
def test_gradients_are_the_same_while_the_profiler_is_on(create_graph, hooked):
    def gradients():
        x, w = leaf(4), torch.full((4,), 2.0, requires_grad=True)
        y = x * w
        y.register_hook(lambda g: g * 3)
        if hooked:
            w.register_hook(lambda g: g + 1)  # on a leaf: the ordered pass
        y[1:].mul_(2)
        a, b = y.tanh().split(2)
        loss = double(a, 2).sum() + (b * w[:2]).sum()
        return torch.autograd.grad(loss, [x, w], create_graph=create_graph)

    expected = gradients()
    with profile() as prof:
        found = gradients()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert "DoubleBackward" in names(prof)


def test_leaves_accumulate_and_graphs_are_freed_as_usual():
    x = leaf(3)
    y = (x * x).sum()
    with profile():
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="retain_graph"):
            y.backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]


def test_an_error_in_backward_is_recorded_and_raised():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no")

    with profile() as prof, pytest.raises(ValueError, match="no"):
        Fails.apply(leaf(2)).sum().backward()
    assert "FailsBackward" in names(prof)


def test_an_operator_that_fails_is_recorded():
    with profile() as prof, pytest.raises(RuntimeError):
        torch.mm(leaf(3, 2), leaf(3, 2))
    assert "aten::mm" in names(prof)


def test_record_function_names_a_range_as_context_and_as_decorator():
    """B-88, E-164"""

    @record_function("decorated")
    def work(x):
        return x.exp()

    with profile() as prof:
        with record_function("outer", "note"):
            work(leaf(2))
        with pytest.raises(ZeroDivisionError), record_function("failing"):
            raise ZeroDivisionError
    outer, inner = one(prof, "outer"), one(prof, "decorated")
    assert inner.cpu_parent is outer
    assert one(prof, "aten::exp").cpu_parent is inner
    assert outer.is_user_annotation
    assert outer.concrete_inputs == ["note"]
    assert one(prof, "failing").cpu_parent is None


def test_record_function_works_inside_a_backward_and_in_hooks():
    """E-164"""

    class Named(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            with record_function("mine"):
                return g * 2

    def hook(g):
        with record_function("hook"):
            return g

    y = Named.apply(leaf(2))
    y.register_hook(hook)
    with profile() as prof:
        y.sum().backward()
    assert one(prof, "mine").cpu_parent.name == "NamedBackward"
    assert "hook" in names(prof)


def test_record_function_outside_a_profile_does_nothing():
    with record_function("unseen"):
        pass


def test_self_time_is_the_total_less_the_children():
    """B-89"""
    with profile() as prof, record_function("outer"):
        time.sleep(0.002)
        with record_function("inner"):
            time.sleep(0.004)
    outer, inner = one(prof, "outer"), one(prof, "inner")
    assert outer.cpu_children == [inner]
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total)
    assert inner.cpu_time_total >= 4000
    assert isinstance(outer.time_range, Interval)
    assert isinstance(outer, FunctionEvent)


def test_children_of_another_thread_are_not_inside():
    def work():
        with record_function("elsewhere"):
            leaf(2).exp()

    with profile() as prof, record_function("here"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert one(prof, "elsewhere").cpu_parent is None
    assert one(prof, "elsewhere").thread != one(prof, "here").thread


def test_shapes_and_stacks_are_recorded_when_asked_for():
    """B-89"""
    with profile(record_shapes=True, with_stack=True) as prof:
        torch.cat([leaf(2), leaf(3)])
        leaf(2, 3) * 4
    cat, mul = one(prof, "aten::cat"), one(prof, "aten::mul")
    assert cat.input_shapes == [[[2], [3]]]
    assert mul.input_shapes == [[2, 3], []]
    assert mul.concrete_inputs == [None, 4]
    assert "test_profiler.py" in mul.stack[0]
    with profile() as prof:
        leaf(2).exp()
    assert one(prof, "aten::exp").input_shapes == []
    assert one(prof, "aten::exp").stack == []


def test_memory_counts_what_came_to_be_and_what_was_freed():
    """B-92"""
    x = torch.ones(1000)
    with profile(profile_memory=True) as prof:
        y = x.exp()
        z = y.view(10, 100)
        del y, z
    assert one(prof, "aten::exp").cpu_memory_usage == 4000
    assert one(prof, "aten::view").cpu_memory_usage == 0
    assert one(prof, "[memory]").cpu_memory_usage == -4000


@pytest.mark.parametrize("ordered", [False, True])
def test_nodes_have_memory_and_shapes_in_every_pass(ordered, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", ordered)
    y = leaf(1000).exp().sum()
    with profile(profile_memory=True, record_shapes=True) as prof:
        y.backward()
    node = one(prof, "ExpBackward0")
    assert node.self_cpu_memory_usage == 4000
    assert node.input_shapes == [[1000]]


def test_an_operator_inside_a_range_counts_its_memory_there_too():
    with profile(profile_memory=True) as prof, record_function("outer"):
        y = torch.ones(1000).exp()
    assert one(prof, "outer").cpu_memory_usage == y.nbytes
    assert one(prof, "aten::ones").self_cpu_memory_usage == y.nbytes
    assert one(prof, "outer").self_cpu_memory_usage == -y.nbytes  # the ones are freed there


def test_key_averages_sum_by_name():
    """B-90"""
    with profile(record_shapes=True) as prof:
        for size in (2, 2, 3):
            leaf(size).exp()
    (exp,) = [one for one in prof.key_averages() if one.key == "aten::exp"]
    events = [event for event in prof.function_events if event.name == "aten::exp"]
    assert exp.count == 3
    assert exp.cpu_time_total == pytest.approx(sum(event.cpu_time_total for event in events))
    assert exp.cpu_time == pytest.approx(exp.cpu_time_total / 3)
    assert exp.cpu_time_str.endswith("s")
    by_shape = prof.key_averages(group_by_input_shape=True)
    counts = {str(one.input_shapes): one.count for one in by_shape if one.key == "aten::exp"}
    assert counts == {"[[2]]": 2, "[[3]]": 1}
    assert prof.total_average().count == len(prof.function_events)


def test_key_averages_by_the_users_line():
    with profile(with_stack=True) as prof:
        leaf(2).exp()
        leaf(2).exp()
    rows = [one for one in prof.key_averages(group_by_stack_n=1) if one.key == "aten::exp"]
    assert [row.count for row in rows] == [1, 1]
    assert "Source Location" in prof.key_averages(group_by_stack_n=1).table()


def test_the_table_has_a_row_for_each_name_and_a_footer():
    """B-90"""
    long = "a name that is much longer than the column it has to go into here"
    with profile(profile_memory=True) as prof, record_function(long):
        leaf(3).exp().sum()
    table = prof.key_averages().table(sort_by="self_cpu_time_total", max_name_column_width=20)
    lines = table.splitlines()
    for column in ("Name", "Self CPU %", "CPU total", "CPU time avg", "CPU Mem", "# of Calls"):
        assert column in lines[1]
    assert any(line.split()[0] == "aten::exp" for line in lines[3:-2])
    assert "a name that is mu..." in table
    assert lines[-1].startswith("Self CPU time total: ")
    assert len(prof.key_averages().table(row_limit=1).splitlines()) == 6
    assert "hello" in prof.table(header="hello")
    top = prof.key_averages().table(top_level_events_only=True, time_unit="ms")
    assert "aten::exp" not in top
    assert "ms" in top


def test_the_table_is_sorted_largest_first_and_an_unknown_column_is_refused():
    """B-90"""
    x = leaf(2)
    with profile() as prof:
        for _ in range(3):
            x.exp()
        x.sin()
    rows = prof.key_averages().table(sort_by="count").splitlines()[3:]
    assert rows[0].split()[0] == "aten::exp"
    with pytest.raises(AttributeError, match="nonsense"):
        prof.key_averages().table(sort_by="nonsense")


def test_flops_are_counted_for_products():
    with profile(with_flops=True) as prof:
        torch.mm(leaf(2, 3), leaf(3, 4))
    assert one(prof, "aten::mm").flops == 2 * 2 * 3 * 4
    assert one(prof, "aten::mm").input_shapes == []
    assert "Total FLOPs" in prof.key_averages().table()


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_chrome_trace_has_events_and_arrows_to_the_backward(tmp_path, name):
    """B-91"""
    with profile(record_shapes=True) as prof, record_function("mine"):
        leaf(3).exp().sum().backward()
    path = tmp_path / name
    prof.export_chrome_trace(str(path))
    opened = gzip.open if name.endswith("gz") else open
    with opened(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    (exp,) = [event for event in events if event["name"] == "aten::exp"]
    assert (exp["ph"], exp["cat"], exp["args"]["Input Dims"]) == ("X", "cpu_op", [[3]])
    assert exp["dur"] > 0
    assert {event["cat"] for event in events if event["ph"] == "X"} == {
        "cpu_op",
        "backward",
        "user_annotation",
    }
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert any(event["ts"] == exp["ts"] for event in starts.values())
    assert all(starts[i]["ts"] < ends[i]["ts"] for i in starts)


def test_stacks_are_written_for_flame_graphs(tmp_path):
    """B-91"""
    path = tmp_path / "stacks.txt"
    with profile(with_stack=True) as prof, record_function("slow"):
        time.sleep(0.001)
    prof.export_stacks(str(path), "self_cpu_time_total")
    frames, value = path.read_text().splitlines()[0].rsplit(" ", 1)
    assert "test_stacks_are_written" in frames.split(";")[-1]
    assert int(value) >= 1000
    with pytest.raises(ValueError, match="metric"):
        prof.export_stacks(str(path), "nonsense")
    with profile() as prof:
        pass
    with pytest.raises(RuntimeError, match="with_stack"):
        prof.export_stacks(str(path))


def test_a_profile_is_entered_once_and_read_when_it_is_over():
    """B-87"""
    prof = profile()
    assert "unfinished" in repr(prof)
    with pytest.raises(RuntimeError, match="not finished"):
        prof.key_averages()
    with prof:
        with pytest.raises(RuntimeError, match="one at a time"), profile():
            pass
        leaf(2).exp()
    with pytest.raises(RuntimeError, match="entered before"), prof:
        pass
    assert "aten::exp" in repr(prof)
    assert names(prof) == ["aten::ones", "aten::exp"]


def test_a_profile_that_is_not_enabled_is_empty():
    """B-87"""
    with profile(enabled=False) as prof:
        leaf(2).exp()
    assert list(prof.function_events) == []
    assert prof.table() == ""
    assert prof.self_cpu_time_total == 0


def test_recording_can_be_paused():
    with profile() as prof:
        prof.toggle_collection_dynamic(False)
        leaf(2).exp()
        prof.toggle_collection_dynamic(True)
        leaf(2).sin()
        prof.toggle_collection_dynamic(False)
    assert names(prof) == ["aten::ones", "aten::sin"]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_profile_may_end_in_the_middle_of_a_backward(create_graph, ordered, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", ordered)
    prof = profile()
    y = leaf(2).exp()
    y.register_hook(lambda g: prof.toggle_collection_dynamic(False))
    with prof:
        loss = y.sin().sum()
        (g,) = torch.autograd.grad(loss, leaf_of(y), create_graph=create_graph)
    assert g.shape == (2,)
    assert "SinBackward0" in names(prof)


def leaf_of(tensor):
    return tensor.grad_fn.next_functions[0][0].variable


def test_nothing_of_the_profiler_is_left_behind():
    before = torch.exp.__code__, torch.autograd.Function.apply.__func__.__code__
    x = leaf(100)
    with profile(profile_memory=True) as prof:
        y = x.exp()
        node = weakref.ref(y.grad_fn)
        y.sum().backward()
    assert (torch.exp.__code__, torch.autograd.Function.apply.__func__.__code__) == before
    kept = weakref.ref(y)
    del y
    assert kept() is None
    assert node() is None  # events keep numbers, not nodes
    assert prof.function_events


def test_a_missing_device_is_told_and_an_empty_profile_refused():
    with pytest.warns(UserWarning, match="cuda"):
        profile(use_device="cuda")
    with pytest.raises(RuntimeError, match="CPU"):
        profile(use_cpu=False)
    with pytest.raises(RuntimeError, match="CUDA"), profiler.emit_nvtx():
        pass
    with profiler.emit_nvtx(enabled=False):
        pass


# The newer face -----------------------------------------------------------------------------------


def test_the_newer_profile_records_all_without_a_schedule():
    """B-92"""
    ready = []
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], on_trace_ready=ready.append
    ) as prof:
        leaf(2).exp()
    assert [event.name for event in prof.events()] == ["aten::ones", "aten::exp"]
    assert ready == [prof]
    assert {one.key for one in prof.key_averages()} == {"aten::ones", "aten::exp"}
    assert torch.profiler.record_function is record_function


def test_a_schedule_names_the_steps_that_are_recorded():
    """B-92"""
    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [plan(step).name for step in range(12)] == [
        *("NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"),
        *("NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE", "NONE"),
    ]
    with pytest.raises(AssertionError, match="active"):
        torch.profiler.schedule(wait=0, warmup=0, active=0)


@pytest.mark.parametrize("keeps", [False, True])
def test_each_window_of_a_schedule_is_handed_on_once(keeps):
    """B-92"""
    windows = []

    def ready(prof):
        windows.append((prof.step_num, [event.name for event in prof.events()]))

    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with torch.profiler.profile(schedule=plan, on_trace_ready=ready, acc_events=keeps) as prof:
        for _ in range(9):
            leaf(2).exp()
            prof.step()
    work = ["aten::ones", "aten::exp"]
    first = ["ProfilerStep#2", *work, "ProfilerStep#3", *work]
    second = ["ProfilerStep#6", *work, "ProfilerStep#7", *work]
    assert windows == [(4, first), (8, first + second if keeps else second)]


def test_traces_go_into_a_folder(tmp_path):
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path / "log"), "me", use_gzip=True)
    with torch.profiler.profile(on_trace_ready=handler) as prof:
        prof.add_metadata("run", "1")
        prof.add_metadata_json("more", "[1, 2]")
        leaf(2).exp()
    (path,) = (tmp_path / "log").iterdir()
    with gzip.open(path, "rt") as file:
        whole = json.load(file)
    assert path.name.startswith("me.")
    assert (whole["run"], whole["more"]) == ("1", [1, 2])


def test_a_profile_without_activities_or_results_says_so():
    with pytest.raises(AssertionError, match="activities"):
        torch.profiler.profile(activities=[])
    with pytest.raises(AssertionError, match="not run"):
        torch.profiler.profile().events()


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_the_profiler_costs_little_for_each_operator(part):
    """Under 2 us on a free machine; the bound leaves room for a busy one."""

    def best():
        times = []
        for _ in range(15):
            x, w = leaf(4), leaf(4)
            start = time.process_time()
            y = x
            for _ in range(400):
                y = y * w
            if part == "backward":
                start = time.process_time()
                y.backward(torch.ones(4))
            times.append(time.process_time() - start)
        return min(times) / 400 * 1e6

    best()
    for _ in range(5):  # others on the machine only add
        off = best()
        with profile():
            on = best()
        if on - off < 5:
            break
    assert on - off < 5


def test_operators_are_called_as_users_write_them():
    from pullback.autograd.profile.names import user_name

    model = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.GELU(), torch.nn.SiLU())
    with torch.autograd.profiler.profile() as run:
        model(torch.ones(2, 4)).sum()
    names = {event.name for event in run.function_events}
    assert {"aten::native_layer_norm", "aten::gelu", "aten::silu", "aten::sum"} <= names
    assert user_name("special.i1") == "special_i1"
    assert user_name("_matmul") == "matmul"
    assert user_name("mul_") == "mul_"
    assert user_name("logical_and_") == "logical_and_"


def test_times_by_module():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    with torch.autograd.profiler.profile() as run, torch.autograd.graph.name_modules(model):
        model(torch.ones(32, 64)).sum().backward()
    found = {one.label: one for one in run.by_module(model)}
    assert set(found) == {"", "0: Linear(64, 64)", "1: Tanh()", "2: Linear(64, 1)"}
    assert all(one.forward > 0 and one.backward > 0 for one in found.values())
    assert found["1: Tanh()"].operators == 1
    assert "0: Linear(64, 64)" in repr(run.by_module(model))
    with torch.autograd.profiler.profile() as run:
        model(torch.ones(1, 64))
    with pytest.raises(RuntimeError, match="name_modules"):
        run.by_module(torch.nn.Linear(1, 1))


@pytest.mark.parametrize("divide", [lambda x: x / 1, lambda x: 1 * x / x, torch.true_divide])
def test_the_sign_of_division_is_recorded_as_torch_does(divide):
    x = torch.ones(2)
    with torch.autograd.profiler.profile() as recorded:
        divide(x) if divide is not torch.true_divide else divide(x, 2)
    names = [event.name for event in recorded.function_events]
    assert names[-1] == "aten::div"
    assert "aten::true_divide" not in names
    assert {event.fwd_thread for event in recorded.function_events} == {0}
