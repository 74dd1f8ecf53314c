"""Graphs at some nodes of which a user's code runs, and all that can be seen of a pass over one."""

import random

import numpy as np

import pullback as torch


class Scaled(torch.autograd.Function):
    """Several inputs and results; no gradient for the second input."""

    @staticmethod
    def forward(ctx, x, w, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x * n, x.sin() + w.detach()

    @staticmethod
    def backward(ctx, a, b):
        (x,) = ctx.saved_tensors
        return a * ctx.n + b * x.cos(), None, None


class Turned(torch.autograd.Function):
    """A gradient in another memory order."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return (g.t().contiguous() * 2).t()


def leaves(rng):
    return [torch.tensor(rng.standard_normal((3, 3)).astype("f4"), requires_grad=True)
            for _ in range(3)]  # fmt: skip


def shown(g):
    return None if g is None else np.array(g.detach()._array)


class Log(list):
    """What user code saw, in order."""

    def hook(self, name, factor=None):
        def hook(g):
            self.append((name, shown(g)))
            return None if factor is None or g is None else g * factor

        return hook


# Each takes leaves and a log, and gives roots and what to look at besides the leaves. ----------


def on_a_leaf(x, y, z, log):
    x.register_hook(log.hook("x", 3.0))
    return [((x * y).exp() * z).sum()], []


def on_a_tensor_inside(x, y, z, log):
    h = (x * y).tanh()
    h.register_hook(log.hook("first", 2.0))
    h.register_hook(log.hook("second"))
    return [(h * z).sin().sum() + h.exp().sum()], []


def on_outputs_of_several(x, y, z, log):
    a, b, c = (x * y).unbind()
    b.register_hook(log.hook("b", 0.5))
    a.register_hook(log.hook("a"))
    return [(a.sin() * b + c.exp()).sum()], []


def of_which_one_is_unused(x, y, z, log):
    a, b, _ = (x * y).unbind()
    b.register_hook(log.hook("b"))
    return [(a.sin() * z).sum()], []


def around_nodes(x, y, z, log):
    h = (x @ y).exp()
    h.grad_fn.register_prehook(lambda gs: log.append(("pre", shown(gs[0]))) or (gs[0] * 2,))
    h.grad_fn.register_hook(
        lambda made, given: log.append(("post", shown(made[0]), shown(given[0]))) or (made[0] * 3,)
    )
    return [(h + z).sin().sum()], []


def accumulated_twice(x, y, z, log):
    h = x * y
    x.register_post_accumulate_grad_hook(lambda t: log.append(("x", shown(t.grad))))
    y.register_post_accumulate_grad_hook(lambda t: log.append(("y", shown(t.grad))))
    return [(h.sin() * x).sum(), (h.exp() * y + z).sum()], []


def a_step_inside(x, y, z, log):
    """A leaf is written to as soon as its gradient is complete."""

    def step(leaf):
        log.append(shown(leaf.grad))
        with torch.no_grad():
            leaf -= 0.1 * leaf.grad
        leaf.grad = None

    for one in (x, y, z):
        one.register_post_accumulate_grad_hook(step)
    return [(((x @ y).tanh() @ z).tanh().sum())], []


def that_reads_a_leaf(x, y, z, log):
    h = x.sin()
    h.register_hook(lambda g: log.append((shown(z.grad), shown(x.grad), shown(g))))
    return [(((h * y).exp() * z).sum())], []


def that_runs_a_pass(x, y, z, log):
    h = x.sin()

    def hook(g):
        with torch.enable_grad():
            (z.exp() * z).sum().backward()
        log.append(shown(z.grad))

    h.register_hook(hook)
    return [((h * y).exp() * z).sum()], []


def that_removes_itself(x, y, z, log):
    h = (x * y).sin()

    def hook(g):
        log.append(shown(g))
        handle.remove()
        return g * 2

    handle = h.register_hook(hook)
    return [(h * z).sum()], []


def that_adds_another(x, y, z, log):
    a = x.sin()
    b = a.exp()
    c = b * y

    def hook(g):
        a.register_hook(log.hook("added", 2.0))
        x.register_hook(log.hook("added to a leaf"))

    c.register_hook(hook)
    y.register_hook(log.hook("y"))
    return [(c * z).tanh().sum()], []


def that_swaps_data(x, y, z, log):
    a = x * y
    b = a.sin()

    def hook(g):
        y.data = torch.full((3, 3), 2.0)

    b.register_hook(hook)
    return [(b * z).sum()], []


def that_ask_for_gradients(x, y, z, log):
    h = x * y
    e = h.exp()
    h.retain_grad()
    e.retain_grad()
    return [(e * z).sum() + h.sin().sum()], [h, e]


def of_functions(x, y, z, log):
    a, b = Scaled.apply(x * y, z, 3)
    return [(a.sin() * z).sum() + (b * y).sum()], []


def of_one_result(x, y, z, log):
    a, _ = Scaled.apply(x * y, z.exp(), 3)
    return [(a.sin() * z).sum()], []


def in_another_order(x, y, z, log):
    return [(Turned.apply(x * y).sin() * z).sum()], []


def without_gradient(x, y, z, log):
    _, b = Scaled.apply(x.sin(), (y * z).exp(), 2)
    h = b * 2
    h.register_hook(log.hook("h"))
    return [(h * x).sum() + z.sum()], []


def of_packed_values(x, y, z, log):
    def pack(t):
        log.append("pack")
        return t.detach().clone()

    def unpack(t):
        log.append(("unpack", shown(t)))
        return t * 1.0

    a = (x * y).sin()
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        b = (a * z).exp()
    return [(b.tanh() * z).sum()], []


def written_in_place(x, y, z, log):
    h = x * y
    h.register_hook(log.hook("before"))
    h.mul_(z)
    h.register_hook(log.hook("after", 2.0))
    return [h.sin().sum()], []


def written_through_a_view(x, y, z, log):
    h = x * y
    h[1:].mul_(z[1:])
    h.register_hook(log.hook("h"))
    h.t()[0].add_(y[0])
    return [(h.sin() * z).sum()], []


def of_a_compiled_call(x, y, z, log):
    h = _compiled(x * y, z)
    h.register_hook(log.hook("h", 2.0))
    return [(h.exp() * y).sum()], []


@torch.compile(backend="python")
def _compiled(a, b):
    return (a * b).tanh() + b


def of_views(x, y, z, log):
    h = x * y
    v = h.t()[1:]
    v.register_hook(log.hook("view", 2.0))
    return [(v.exp() * z[1:]).sum() + h.sum()], []


def stretched(x, y, z, log):
    h = (x * y).sum(0, keepdim=True)
    h.register_hook(log.hook("sum"))
    wide = h.expand(3, 3)
    wide.register_hook(log.hook("wide", 0.5))
    return [(wide * z).sum(1).exp().sum()], []


def that_keep_and_write(x, y, z, log):
    h = x * y

    def hook(g):
        log.append(g)  # kept: nothing may be added to it later
        return g

    h.register_hook(hook)
    x.register_hook(hook)
    return [(h + x).sum() + h.exp().sum()], []


def of_several_leaves(x, y, z, log):
    torch.autograd.graph.register_multi_grad_hook(
        [x, z], lambda gs: log.append([shown(g) for g in gs])
    )
    return [((x * y).exp() * z).sum()], []


def that_wait_for_the_end(x, y, z, log):
    from pullback.autograd import Variable

    def hook(g):
        Variable._execution_engine.queue_callback(lambda: log.append(shown(x.grad)))

    (h := x * y).register_hook(hook)
    return [(h.exp() * z).sum()], []


TABLE = [
    on_a_leaf, on_a_tensor_inside, on_outputs_of_several, of_which_one_is_unused, around_nodes,
    accumulated_twice, a_step_inside, that_reads_a_leaf, that_runs_a_pass, that_removes_itself,
    that_adds_another, that_swaps_data, that_ask_for_gradients, of_functions, of_one_result,
    in_another_order, without_gradient, of_packed_values, written_in_place, of_views, stretched,
    that_keep_and_write, of_several_leaves, that_wait_for_the_end,
    written_through_a_view, of_a_compiled_call,
]  # fmt: skip


def seen(build, how, seed):
    """All that can be seen of one pass."""
    given = leaves(np.random.default_rng(seed))
    log = Log()
    roots, more = build(*given, log)
    made = ()
    try:
        if how == "grad":
            made = torch.autograd.grad(sum(roots), given[:2], allow_unused=True)
        elif how == "inputs":
            torch.autograd.backward(roots, inputs=[given[0], given[2]])
        else:
            torch.autograd.backward(roots, retain_graph=how == "twice")
            if how == "twice":
                torch.autograd.backward(roots)
    except (RuntimeError, ZeroDivisionError) as error:
        log.append(str(error))
    grads = [shown(one.grad) for one in (*given, *more)] + [shown(g) for g in made]
    log = [shown(one) if isinstance(one, torch.Tensor) else one for one in log]
    return log, grads, [shown(one) for one in given]


def same(ours, theirs, rtol):
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, rtol)
    elif isinstance(theirs, np.ndarray):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)
    else:
        assert ours == theirs


def tolerance(backend):
    return 0 if backend == "python" else 1e-5


def at_random(seed):
    """A graph of a few dozen operators with hooks of every sort here and there."""

    def build(x, y, z, log):
        choose = random.Random(seed)
        made = [x, y, z]
        keeps = []
        for number in range(choose.randrange(6, 30)):
            a, b = choose.choice(made), choose.choice(made[-4:])
            one = choose.choice([
                lambda a, b: a * b, lambda a, b: a + b, lambda a, b: (a @ b).tanh(),
                lambda a, b: a.sin(), lambda a, b: b.tanh(), lambda a, b: a.t() * b,
                lambda a, b: torch.cat([a[:1], b[1:]]), lambda a, b: (a - b).sum(0).expand(3, 3),
                lambda a, b: Scaled.apply(a, b, 2)[choose.randrange(2)],
                lambda a, b: Turned.apply(b), lambda a, b: sum(a.unbind()) * b,
                lambda a, b: (a * 0.5).add_(b), lambda a, b: a.detach() + b,
            ])(a, b)  # fmt: skip
            made.append(one)
            if one.grad_fn is None:
                continue
            sort = choose.randrange(12)
            if sort == 0:
                one.register_hook(log.hook(("tensor", number), choose.choice([None, 0.5])))
            elif sort == 1:
                one.grad_fn.register_prehook(
                    lambda gs, n=number: log.append(("pre", n, [shown(g) for g in gs]))
                )
            elif sort == 2:
                one.grad_fn.register_hook(
                    lambda new, gs, n=number: log.append(("post", n, [shown(g) for g in new]))
                )
            elif sort == 3:
                one.retain_grad()
                keeps.append(one)
        for leaf in (x, y, z):
            sort = choose.randrange(6)
            if sort == 0:
                leaf.register_hook(log.hook("leaf", 2.0))
            elif sort == 1:
                leaf.register_post_accumulate_grad_hook(lambda t: log.append(shown(t.grad)))
        roots = [one.sum() for one in made[-3:] if one.requires_grad]
        return roots or [x.sum()], keeps

    return build
