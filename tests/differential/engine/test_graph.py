"""Graph tools next to torch's: the same program gives the same calls, values and errors."""

import gc

import pytest

import pullback

torch = pytest.importorskip("torch")


def leaf(lib, *values):
    return lib.tensor(values or (1.0, 2.0), dtype=lib.float64, requires_grad=True)


def shown(value):
    if isinstance(value, torch.Tensor | pullback.Tensor):
        return [round(float(v), 9) for v in value.detach().reshape(-1)]
    if isinstance(value, tuple | list):
        return [shown(one) for one in value]
    return value


def packs(lib):
    """What the hooks see, for operators of every kind."""
    x, log = leaf(lib), []

    def pack(t):
        name = t.grad_fn and t.grad_fn.name()
        log.append((str(t.dtype), tuple(t.shape), t.requires_grad, t.is_leaf, name))
        return t.detach()

    def unpack(t):
        log.append(("unpacked", tuple(t.shape)))
        return t

    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp() * x
        z = y.sigmoid() + (y * 2).tanh()
        w = z.max(0).values * z.sum()
        v = (z * 1).exp_().sum()
    (w + v).backward()
    return log, shown(x.grad)


def multi_hooks(lib):
    """Calls of one hook over several tensors."""
    x, y, log = leaf(lib), leaf(lib, 3.0, 4.0), []
    register = lib.autograd.graph.register_multi_grad_hook
    a = x * y
    b = a.exp() * 1e-3
    register((x, y), lambda gs: log.append(("leaves", shown(gs))))
    register((a, b), lambda gs: log.append(("inside", shown(gs))))
    register((b, a), lambda g: log.append(("any", shown(g))), mode="any")
    (b.sum() + y.sum()).backward(retain_graph=True)
    y.sum().backward()
    b.sum().backward(inputs=[x])
    return log


def mutations(lib):
    """Writes to saved values, where they are allowed."""
    x = leaf(lib)
    with lib.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = x * 2
        z = (y * y).sum() + y.exp().sum() * 1e-2
        counts = [len(context.original), len(context.cloned)]
        y.mul_(3)
        counts += [len(context.original), len(context.cloned)]
        w = (y * y).sum() * 1e-3
        y.zero_()
        counts += [len(context.original), len(context.cloned)]
        (z + w).backward()
        counts += [len(context.original), len(context.cloned)]
    return counts, shown(x.grad)


def module_hooks(lib):
    """BackwardHook around a function of two tensors and a number."""
    x, y, log = leaf(lib), leaf(lib, 3.0, 4.0), []
    hooks = __import__(f"{lib.__name__}.utils.hooks", fromlist=["BackwardHook"])
    watch = hooks.BackwardHook(
        "module",
        [lambda m, gi, go: log.append((m, shown(gi), shown(go))) or (gi[0] * 2, None, gi[2])],
        [lambda m, go: log.append((m, shown(go))) or (go[0] * 5, go[1])],
    )
    a, number, b = watch.setup_input_hook((x, 3, y))
    first, second = watch.setup_output_hook((a * b * number, a + b))
    (first.sum() + (second * second).sum()).backward()
    return log, shown(x.grad), shown(y.grad), type(first.grad_fn).__name__


@pytest.mark.parametrize("program", [packs, multi_hooks, mutations, module_hooks])
def test_programs_agree(program):
    """G-17 to G-27, G-43, G-44, G-47, G-50, G-55, G-57."""
    assert program(pullback) == program(torch)
    gc.collect()


def _packed_twice(lib):
    node = leaf(lib).exp().grad_fn
    raw = node._raw_saved_result
    raw.register_hooks(lambda t: t, lambda t: t)
    raw.register_hooks(lambda t: t, lambda t: t)


def _after_release(lib):
    y = leaf(lib).exp()
    raw = y.grad_fn._raw_saved_result
    y.sum().backward()
    raw.register_hooks(lambda t: t, lambda t: t)


def _hooks(lib, pack, unpack, use=lambda x: (x * x).sum().backward()):
    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        use(leaf(lib))


def _nested_mutation(lib):
    allow = lib.autograd.graph.allow_mutation_on_saved_tensors
    with allow(), allow():
        pass


def _late_backward(lib):
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        z = leaf(lib).exp().sum()
    z.backward()


ERRORS = {
    "second pair": _packed_twice,
    "after release": _after_release,
    "pack is no function": lambda lib: _hooks(lib, 3, lambda t: t),
    "pack writes": lambda lib: _hooks(
        lib, lambda t: t.mul_(2), lambda t: t, lambda x: (x * 1).exp()
    ),
    "unpack gives text": lambda lib: _hooks(lib, lambda t: t, lambda t: "x"),
    "edge of a constant": lambda lib: lib.autograd.graph.get_gradient_edge(lib.ones(1)),
    "version of a number": lambda lib: lib.autograd.graph.increment_version(3),
    "version of numbers": lambda lib: lib.autograd.graph.increment_version([3]),
    "node": lambda lib: lib.autograd.graph.Node(),
    "mode": lambda lib: lib.autograd.graph.register_multi_grad_hook([leaf(lib)], print, mode="x"),
    "constant in all": lambda lib: lib.autograd.graph.register_multi_grad_hook(
        [lib.ones(1)], print
    ),
    "nested mutation": _nested_mutation,
    "late backward": _late_backward,
    "saved tensor by hand": lambda lib: lib.autograd.SavedTensor(),
    "budget": lambda lib: lib.autograd.graph.region_activation_memory_budget(0.5),
    "budget of text": lambda lib: lib.autograd.graph.region_activation_memory_budget("a"),
    "budget of two": lambda lib: lib.autograd.graph.region_activation_memory_budget(2),
}


@pytest.mark.parametrize("program", ERRORS.values(), ids=ERRORS)
def test_errors_have_torchs_type(program):
    """G-2, G-7, G-10, G-15, G-16, G-17, G-21, G-25, G-46, G-50, G-58, G-59, G-64."""
    with pytest.raises(Exception) as theirs:  # noqa: PT011 (its type is what is asked for)
        program(torch)
    with pytest.raises(type(theirs.value)) as ours:
        program(pullback)
    assert type(ours.value) is type(theirs.value)
    gc.collect()
