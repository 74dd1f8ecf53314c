"""`graph.unused`: which parameters a loss misses, and where the way from them ends."""

import inspect
import runpy

import pullback as torch
from pullback import nn
from pullback.autograd.answers import cuts
from pullback.autograd.graph import name_modules, plan, unused


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 2))
        self.aux = nn.Linear(9, 3)
        self.head = nn.Linear(9, 3)
        self.never = nn.Linear(2, 2)

    def forward(self, x):
        h = self.body[0](x)
        self.side = self.aux(h).tanh()
        self.cut = self.side.detach()
        self.left = self.head(h)
        return self.body[2](self.body[1](h)) + self.cut.sum()


def line(text):
    lines, start = inspect.getsourcelines(Model.forward)
    return start + next(i for i, one in enumerate(lines) if text in one)


def made():
    torch.manual_seed(0)
    model = Model()
    return model, model(torch.ones(1, 4)).sum()


def test_names_last_operators_and_cuts():
    model, loss = made()
    found = unused(loss, model)
    expected = [
        f"{part}.{name}" for part in ("aux", "head", "never") for name in ("weight", "bias")
    ]
    assert found.names == expected
    assert "body.0.weight" not in found
    aux, _, head, _, never, _ = found
    assert aux.operator == "TanhBackward0"
    assert aux.origin.line == line("self.side =")
    assert f"detach() at test_unused.py:{line('self.cut =')}" in aux.why
    assert head.operator == "AddmmBackward0"
    assert "nothing recorded was computed from its result" in head.why
    assert (never.operator, never.origin) == ("", None)
    assert "was not used" in never.why
    assert "6 of 10 parameters get no gradient" in repr(found)
    assert "aux.weight" in found._repr_html_()


def test_it_agrees_with_a_backward_pass():
    model, loss = made()
    names = unused(loss, model).names
    loss.backward()
    assert names == [name for name, p in model.named_parameters() if p.grad is None]


def test_nothing_is_unused_where_all_are_reached():
    model = nn.Linear(2, 1)
    found = unused(model(torch.ones(1, 2)).sum(), model)
    assert not found
    assert "0 of 2" in repr(found)


def test_frozen_parameters_are_counted_apart():
    model, _ = made()
    model.never.requires_grad_(False)
    found = unused(model(torch.ones(1, 4)).sum(), model)
    assert "never.weight" not in found
    assert "2 more are frozen" in repr(found)


def test_several_losses_and_dicts_of_tensors():
    a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
    found = unused([(a * 2).sum(), (b * 2).sum()], {"a": a, "b": b, "c": c})
    assert found.names == ["c"]


def test_an_unused_parameter_does_not_claim_a_gradient():
    model, loss = made()
    assert "no graph that is alive leads to it" in model.never.weight.why_no_grad()
    assert "unused(loss, model)" in model.aux.weight.why_no_grad()
    loss.backward()
    assert "has been filled" in model.body[0].weight.why_no_grad()


def test_the_plan_names_modules_and_what_is_not_reached():
    model, loss = made()
    table = repr(plan(loss, params=model))
    assert "body.2: Linear(9, 2)" in table
    assert "not reached  never.weight" in table
    assert "module" not in repr(plan(loss)).splitlines()[1]


def test_parts_without_parameters_are_named_where_calls_were_watched():
    model, loss = made()
    modules = {step.name: step.module for step in plan(loss, params=model)}
    assert modules["ReluBackward0"] == "body: Sequential"  # what holds both neighbours
    with name_modules(model):
        loss = model(torch.ones(1, 4)).sum()
    modules = {step.name: step.module for step in plan(loss, params=model)}
    assert modules["ReluBackward0"] == "body.1: ReLU()"
    assert modules["SumBackward0"] == ""
    loss = model(torch.ones(1, 4)).sum()  # a later call, unwatched
    modules = {step.name: step.module for step in plan(loss, params=model)}
    assert modules["ReluBackward0"] == "body: Sequential"


def test_the_list_of_hooks_names_modules():
    from pullback.autograd.graph import hooks

    model, loss = made()
    model.body[2].weight.register_hook(lambda g: None)
    listed = hooks(loss, params=model)
    assert [one.module for one in listed] == ["body.2.weight"]
    assert "body.2.weight" in repr(listed)
    assert "module" not in repr(hooks(loss)).splitlines()[1]


# Nothing is kept: the source tells --------------------------------------------------------------


class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("main", "aside", "blocked", "early", "number", "helped", "used", "never"):
            setattr(self, name, nn.Linear(2, 2))
        self.deep = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.scale = nn.Parameter(torch.ones(()))

    @torch.no_grad()
    def help(self, x):
        return self.helped(x)

    def forward(self, x):
        side = self.aside(x).detach()
        with torch.no_grad():
            side = side + self.blocked(x)
        late = self.early(x)
        other = late.relu()
        other = other.data
        weight = self.number(x).sum().item()
        deep = self.deep(x)
        side = side + deep.detach() + self.help(x)
        self.used(x.detach())
        size = (self.scale * x.detach()).detach()
        return self.main(x) + side + other + weight + size + 0 * x.sum()


def cut_line(text, function=Cut.forward):
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, one in enumerate(lines) if text in one)


def test_where_nothing_is_kept_the_line_that_cuts_is_named():
    model = Cut()
    why = {one.name: one.why for one in unused(model(torch.ones(1, 2)).sum(), model)}
    expected = {
        "aside.weight": ("detach()", cut_line("self.aside")),
        "blocked.bias": ("no_grad()", cut_line("with torch.no_grad")),
        "early.weight": (".data", cut_line("other.data")),
        "number.weight": ("item()", cut_line("self.number")),
        "deep.0.weight": ("detach()", cut_line("deep.detach()")),
        "scale": ("detach()", cut_line("self.scale")),
        "helped.weight": ("no_grad()", cut_line("no_grad", Cut.help)),
    }
    for name, (how, line_number) in expected.items():
        assert why[name].startswith(f"{how} at test_unused.py:{line_number} takes"), (
            name,
            why[name],
        )
    for name in ("used.weight", "never.weight"):  # what is cut before it is no cut of it
        assert "was not used" in why[name]
    assert "main.weight" not in why


def test_a_variable_that_is_cut_in_the_function_of_the_loss_is_found():
    w, v = (torch.ones(2, requires_grad=True) for _ in range(2))
    u = (v * 3).detach()
    loss = (w * u).sum()
    (found,) = unused(loss, {"w": w, "v": v})
    here = inspect.currentframe().f_lineno
    assert found.why.startswith(f"detach() at test_unused.py:{here - 3} takes")


def test_a_model_whose_source_cannot_be_read_is_answered_as_before():
    names = {}
    exec("def forward(self, x):\n    return self.a(x) + self.b(x).detach()", names)
    model = nn.Module()
    model.a, model.b = nn.Linear(2, 2), nn.Linear(2, 2)
    model.__class__ = type("Made", (nn.Module,), {"forward": names["forward"]})
    found = unused(model.forward(torch.ones(1, 2)).sum(), model)
    assert all("was not used" in one.why for one in found)


SCRIPT = """import pullback as torch
from pullback.autograd import graph

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(this, x):
        h = this.a(x)
        side = this.b(h).detach()
        return h + side

model = Model()
loss = model(torch.ones(2, 3)).sum()
found = graph.unused(loss, model)
"""


def test_a_line_inside_a_function_of_a_script_is_that_line(tmp_path):
    """The source of a script has that of its functions: the line was that of the class."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    found = runpy.run_path(str(script))["found"]
    assert found.names == ["b.weight", "b.bias"]
    assert "detach() at script.py:11 " in found[0].why
    code = compile(SCRIPT, str(script), "exec")  # also where the script alone is known
    assert str(cuts.cut_of_name([code], ".b")) == "detach() at script.py:11"
