"""Torch's inner names as programs, run by both libraries."""
# ruff: noqa: E501 (programs, as users write them in one line)

import pytest

import pullback
from tests.differential.printed import agree

torch = pytest.importorskip("torch")

PROGRAMS = {
    "UndefinedGrad": """
        x = torch.ones(2, requires_grad=True); y = torch._C._functions.UndefinedGrad()(x)
        print(y.grad_fn.name(), y._is_view(), torch.autograd.grad(y.sum(), x, allow_unused=True))
        torch._C._functions.UndefinedGrad()(x, x)
    """,
    "DelayedError": """
        D = torch._C._functions.DelayedError; x, z = torch.ones(2, requires_grad=True), torch.ones(3)
        r = D("msg", 2)(x, z); print([o.requires_grad for o in r], r[0].grad_fn.name(), D("m", 1)(z).requires_grad)
        print(isinstance(D("m", 1), torch.autograd.graph.Node), torch.autograd.grad(x.sum(), x))
        try: D("m", 2)(x)
        except TypeError: print("TypeError")
        D("it came here", 1)(x).sum().backward()
    """,
    "_WeakTensorRef": """
        x = torch.ones(1); w = torch._C._WeakTensorRef(x); y = x.detach(); print(w.expired()); del x; print(w.expired())
    """,
    "forward mode switched off": """
        print(torch._C._is_fwd_grad_enabled(), torch._C._set_fwd_grad_enabled(False), torch._C._is_fwd_grad_enabled())
        torch._C._set_fwd_grad_enabled(True); print(torch._C.is_grad_enabled())
    """,
    "versions": """
        z = torch.ones(3); s = torch._C._autograd._unsafe_set_version_counter; s((z,), (7,)); print(z._version)
        for t, v in (((z,), (-1,)), ((z,), (1, 2))):
            try: s(t, v)
            except RuntimeError: print("RuntimeError")
        x = torch.ones(1, requires_grad=True); y = x.exp(); z = y * y; print(type(z.grad_fn._raw_saved_self) is torch._C._autograd.SavedTensor)
    """,
    "functorch's view of tensors": """
        F = torch._C._functorch
        def seen(x):
            print(F.is_batchedtensor(x), F.is_gradtrackingtensor(x), F.maybe_get_bdim(x), F.maybe_get_level(x), F.dlevel(x))
            print(F.get_unwrapped(x).shape, F.peek_interpreter_stack().key(), F.peek_interpreter_stack().level())
            return x
        x = torch.ones(2)
        torch.vmap(seen, in_dims=1)(torch.ones(2, 3)); torch.func.grad(lambda x: seen(x).sum())(x)
        torch.func.jvp(lambda x: seen(x) * 2, (x,), (x,)); torch.vmap(torch.func.grad(lambda x: seen(x).sum()))(torch.ones(2, 3))
        torch.func.grad(lambda x: torch.vmap(seen)(x).sum())(torch.ones(2, 3))
        print(F.is_batchedtensor(x), F.maybe_get_bdim(x), F.maybe_get_level(x), F.dlevel(x), F.peek_interpreter_stack())
        F.get_unwrapped(x)
    """,
    "reshapes of functorch": """
        F = torch._C._functorch; t = torch.arange(24).reshape(2, 3, 4)
        for a in ((0, 1), (0, 0), (2, 0), (-1, 0), (1, 1)): print(F.reshape_dim_into(*a, t))
        for a in ((1, 3), (2, 2), (-1, 2)): print(F.reshape_dim_outof(*a, t))
        print(F.reshape_dim_outof(0, 0, torch.zeros(0, 3)).shape); F.reshape_dim_outof(1, 2, t)
    """,
    "restore_vmap": """
        r = imp("torch._functorch.vmap").restore_vmap
        print(r(lambda x, y: (x * 2, y, 3, x + y), (0, None), 2, "error")(torch.ones(2, 3), torch.ones(3)))
        print(r(lambda x: x.movedim(0, -1), (1,), 3, "error")(torch.ones(2, 3)))
    """,
    "argnums": """
        s = imp("torch._functorch.eager_transforms")._slice_argnums
        for a in (0, -1, (0,), (1, 0), 1.0, [0], ((0,),), 5, (), (0, 0), (0, -3)):
            try: print(s((1, 2, 3), a), s((1, 2, 3), a, as_tuple=False))
            except RuntimeError: print("RuntimeError")
    """,
    "make_functional": """
        f, nn = imp("functorch"), torch.nn
        m = nn.Linear(2, 2); fm, p = f.make_functional(m); x = torch.ones(1, 2)
        print(type(p), [type(q).__name__ for q in p], fm.names_map, fm.param_names, torch.equal(fm(p, x), m(x)), p[0] is m.weight)
        print(f.make_functional(m, disable_autograd_tracking=True)[1][0].requires_grad, type(fm).__name__)
        class T(nn.Module):
            def __init__(s): super().__init__(); s.a = nn.Linear(2, 2, bias=False); s.b = nn.Linear(2, 2, bias=False); s.b.weight = s.a.weight
            def forward(s, x): return s.b(s.a(x))
        ft, p = f.make_functional(T()); print(len(p), ft.names_map, torch.allclose(ft(p, x), x @ p[0].T @ p[0].T))
        try: fm(p[:0], x)
        except RuntimeError: print("RuntimeError")
        f.make_functional(nn.BatchNorm1d(2))
    """,
    "make_functional_with_buffers": """
        f, nn = imp("functorch"), torch.nn
        fm, p, b = f.make_functional_with_buffers(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval())
        print(fm.param_names, fm.buffer_names, fm(p, b, torch.ones(3, 2)).shape, fm)
        fm, p, b = f.combine_state_for_ensemble([nn.Linear(2, 3) for _ in range(4)])
        print([q.shape for q in p], [q.requires_grad for q in p], [q.is_leaf for q in p], b, type(fm).__name__)
        print(torch.vmap(fm, in_dims=(0, 0, None))(p, b, torch.ones(5, 2)).shape)
        for bad in ([], [nn.Linear(2, 2), nn.Identity()], [nn.Linear(2, 2), nn.Linear(2, 2).eval()]):
            try: f.combine_state_for_ensemble(bad)
            except RuntimeError: print("RuntimeError")
    """,
    "functional_init": """
        m, nn = imp("torch._functorch.make_functional"), torch.nn
        w, fn, names = m.functional_init(nn.Linear, (3,))(2, 2); print([q.shape for q in w], names)
        w, fn, names = m.functional_init(nn.Linear)(2, 2); print([q.shape for q in w], names)
        r = m.functional_init_with_buffers(nn.BatchNorm1d, (3,))(2); print([q.shape for q in r[0] + r[1]], r[3:])
        m.functional_init(nn.Linear, (2, 3))(2, 2)
    """,
    "chunk_vmap": """
        c = imp("torch._functorch.apis").chunk_vmap; sizes = []
        print(c(lambda x: (sizes.append(x.shape), x.sum())[1], in_dims=1, chunks=3)(torch.ones(2, 7)), len(sizes))
        print(c(lambda x: torch.rand(()) + x, randomness="same", chunks=2)(torch.zeros(4)).unique().numel())
        c(torch.sin, chunks=0)(torch.ones(2))
    """,
    "functorch warns": "imp('functorch').vmap(torch.sin)",
    "profiler events": """
        u = imp("torch.autograd.profiler_util"); E = u.FunctionEvent
        e = [E(1, "a", 0, 0.0, 10.0), E(2, "b", 0, 2.0, 5.0), E(3, "c", 0, 8.0, 12.0), E(4, "d", 1, 3.0, 4.0), E(5, "e", 0, 3.0, 4.0, node_id=3)]
        l = u.EventList(e); l._populate_cpu_children()
        print([[c.id for c in x.cpu_children] for x in l], [x.cpu_parent and x.cpu_parent.id for x in l], [x.cpu_time for x in l], [x.node_id for x in l])
        print(u._format_time(12345), u._format_time(5), u._format_time(1.2e6))
        a = u.FunctionEventAvg(); a.add(e[0]); a.add(E(9, "a", 0, 0.0, 4.0)); print(a.count, a.cpu_time_total, a.key)
        a.add(e[1])
    """,
    "the profiler": """
        print(torch.autograd.kineto_available(), torch.autograd._profiler_enabled())
        with torch.autograd.profiler.profile(use_kineto=torch.autograd.kineto_available()) as p:
            print(torch.autograd._profiler_enabled())
            h = torch.ops.profiler._record_function_enter("hey", None); torch.ones(2).sin(); torch.ops.profiler._record_function_exit(h)
        print([e.cpu_parent.name for e in p.function_events if e.name == "aten::sin"])
    """,
    "small ones": """
        import math
        t = torch.tensor
        print(torch._is_all_true(t([True, False])), torch._is_any_true(t([True, False])), torch._test_check_tensor(t([True])))
        print(torch.vmap(torch._is_all_true, out_dims=None)(torch.ones(2, 2, dtype=torch.bool)), torch.ops.aten._is_all_true(t([True])))
        print(torch._unique(t([3., 1, 1], requires_grad=True)), torch._unique(t([3., 1, 1]), True, True))
        print(torch._unique2(t([3., 1, 1]), True, False, True), torch._VF.unique_dim(t([[3., 1], [1, 1], [1, 1]]), 0, True, True, True))
        x = torch.ones(5, requires_grad=True); r = torch.unsafe_split_with_sizes(x, (2, 3)); print(r, r[0]._is_view(), x.detach().unsafe_split_with_sizes((1, 4)))
        g = torch.autograd._calculate_shape; print(g(x, torch.ones(2, 5), True), g(x, x, False), g(torch.autograd.graph.get_gradient_edge(x * 2), x, False))
        print(torch.autograd.functional._construct_standard_basis_for((torch.ones(2), torch.ones(1, dtype=torch.double)), (2, 1)))
        R = imp("torch.autograd._functions").Resize; y = R.apply(x, (5, 1)); y.sum().backward(); print(y.shape, x.grad, torch.autograd.torch is torch)
        print(torch._C._nn.linear(torch.ones(2), torch.ones(3, 2)))
        try: torch._test_check_tensor(t([True, False]))
        except RuntimeError: print("RuntimeError")
        R.apply(x, (2, 3))
    """,
    "the level of dual numbers": """
        f = imp("torch.autograd.forward_ad"); print(f._current_level)
        with f.dual_level(): print(f._current_level)
        print(f._current_level)
    """,
    "what selective checkpoints keep": """
        c = imp("torch.utils.checkpoint")
        first, second = c.create_selective_checkpoint_contexts([torch.ops.aten.sin.default])
        print(type(first).__name__, type(second).__name__)
        with first: y = torch.zeros(2).sin().cos()
        kept = first.storage[torch.ops.aten.sin.default]; print(len(kept), kept[0].val, first.storage is second.storage)
    """,
    "views that remember their operators": """
        A = torch.autograd; print(A.is_view_replay_enabled())
        with A._force_original_view_tracking(True):
            print(A.is_view_replay_enabled())
            x = torch.ones(4, requires_grad=True).clone(); y = x.view(2, 2)[0]; x.mul_(2); print(y.grad_fn.name(), y.grad_fn.next_functions[0][0].name())
            b = torch.ones(2, 2, requires_grad=True).clone(); w = b.t(); w.mul_(3); print(w.grad_fn.name(), b.grad_fn.name())
        z = x.view(2, 2); x.mul_(2); print(z.grad_fn.name())
        A._force_original_view_tracking(True); print(A.is_view_replay_enabled()); A._force_original_view_tracking(False)
    """,
    "warn always": """
        torch.set_warn_always(True); print(torch.is_warn_always_enabled()); x = torch.ones(1, requires_grad=True)
        import warnings
        try:
            for _ in range(2):
                with warnings.catch_warnings(record=True) as w:
                    warnings.simplefilter("always"); (x * x).sum().backward(create_graph=True); x.grad = None; print(len(w))
        finally: torch.set_warn_always(False)
        torch.set_warn_always(1)
    """,
    "parts": """
        a = torch.ops.aten
        print(a._new_zeros_with_same_feature_meta(torch.ones(3, 2), torch.ones(4, 5).t(), self_num_batch_dims=1).stride())
        print(a._linalg_check_errors(torch.tensor([0], dtype=torch.int32), "x", is_matrix=True))
        b = torch.arange(5.0); s = b[1:4:1]; i = a.slice_inverse(s, b, 0, 1, 4); print(i, i.data_ptr() == b.data_ptr())
        try: a._linalg_check_errors(torch.tensor([0, 2], dtype=torch.int32), "linalg.inv", is_matrix=False)
        except RuntimeError: print("RuntimeError")
        with imp("torch._dispatch.python").enable_python_dispatcher(): print(torch.ones(1) + 1)
    """,
}


@pytest.mark.parametrize("about", PROGRAMS)
def test_both_libraries_do_the_same(about):
    agree(PROGRAMS[about])


def leaf(library, *shape, seed=0):
    drawn = torch.Generator().manual_seed(seed + len(shape))
    values = torch.randn(shape, dtype=torch.float64, generator=drawn).tolist()
    return library.tensor(values, dtype=library.float64, requires_grad=True)


CONV = ([2, 1], [1, 0], [1, 2], False, [0, 0], 2)
BACK = ([2, 1], [1, 0], [1, 2], True, [1, 0], 2)
ADJOINTS = {
    "silu": lambda t, a: a.silu_backward(leaf(t, 3, seed=1), leaf(t, 3)),
    "threshold": lambda t, a: a.threshold_backward(leaf(t, 3, seed=1), leaf(t, 3), 0.1),
    "gelu": lambda t, a: a.gelu_backward(leaf(t, 3, seed=1), leaf(t, 3)),
    "gelu tanh": lambda t, a: a.gelu_backward(leaf(t, 3), leaf(t, 3, seed=1), approximate="tanh"),
    "sigmoid": lambda t, a: a.sigmoid_backward(leaf(t, 3, seed=1), leaf(t, 3)),
    "tanh": lambda t, a: a.tanh_backward(leaf(t, 3, seed=1), leaf(t, 3)),
    "convolution": lambda t, a: a.convolution_backward(
        leaf(t, 2, 6, 3, 3), leaf(t, 2, 4, 5, 7), leaf(t, 6, 2, 3, 3), [6], *CONV, [True] * 3
    ),
    "convolution masked": lambda t, a: a.convolution_backward(
        leaf(t, 2, 6, 3, 3), leaf(t, 2, 4, 5, 7), leaf(t, 6, 2, 3, 3), [6], *CONV, [0, 1, 0]
    ),
    "transposed": lambda t, a: a.convolution_backward(
        leaf(t, 2, 6, 8, 5), leaf(t, 2, 4, 5, 1), leaf(t, 4, 3, 1, 3), [6], *BACK, [True] * 3
    ),
    "convolution twice": lambda t, a: a._convolution_double_backward(
        leaf(t, 2, 4, 5, 7), leaf(t, 6, 2, 3, 3), leaf(t, 6), leaf(t, 2, 6, 3, 3, seed=1),
        leaf(t, 6, 2, 3, 3, seed=2), leaf(t, 2, 4, 5, 7, seed=3), *CONV, [True] * 3
    ),
    "pool": lambda t, a: a.adaptive_max_pool2d_backward(
        leaf(t, 1, 2, 2, 2), x := leaf(t, 1, 2, 4, 4),
        t.nn.functional.adaptive_max_pool2d(x, 2, return_indices=True)[1],
    ),
    "nll": lambda t, a: a.nll_loss_forward(leaf(t, 3, 4), t.tensor([1, 2, 0]), leaf(t, 4).detach(), 1, 2),
    "nll sum": lambda t, a: a.nll_loss_forward(leaf(t, 3, 4), t.tensor([1, 2, 0]), None, 2, 2),
    "nll none": lambda t, a: a.nll_loss_forward(leaf(t, 3, 4), t.tensor([1, 2, 0]), None, 0, -100),
}  # fmt: skip


@pytest.mark.parametrize("about", ADJOINTS)
def test_adjoints_by_name_have_torchs_values(about):
    results = []
    for library in (pullback, torch):
        made = ADJOINTS[about](library, library.ops.aten)
        made = made if isinstance(made, tuple) else (made,)
        results.append([None if one is None else one.detach().numpy() for one in made])
    for ours, theirs in zip(*results, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.shape == theirs.shape
            assert abs(ours - theirs).max() < 1e-10


@pytest.mark.parametrize(
    "about", [name for name in ADJOINTS if "nll" not in name and name != "silu"]
)
def test_adjoints_by_name_are_differentiable(about):
    totals = []
    for library in (pullback, torch):
        leaves = []

        def kept(t, *shape, seed=0, leaves=leaves):
            leaves.append(leaf(t, *shape, seed=seed))
            return leaves[-1]

        function = ADJOINTS[about]
        scope = {**function.__globals__, "leaf": kept}
        made = type(function)(function.__code__, scope)(library, library.ops.aten)
        made = made if isinstance(made, tuple) else (made,)
        total = sum((one * one).sum() for one in made if one is not None)
        grads = library.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        totals.append([one.detach().numpy() for one in grads])
    for ours, theirs in zip(*totals, strict=True):
        assert abs(ours - theirs).max() < 1e-8
