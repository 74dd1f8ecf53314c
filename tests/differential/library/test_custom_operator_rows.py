"""Custom operators as programs: fallback of autograd, the older interface, what is refused."""
# ruff: noqa: E501 (programs, as users write them in one line)

import pytest

from tests.differential.printed import agree

torch = pytest.importorskip("torch")

PROGRAMS = {
    "the fallback starts as a warning": """
        print(torch._C._get_autograd_fallback_mode())
        torch._C._set_autograd_fallback_mode("error")
    """,
    "in mode nothing a foreign result has no history": """
        lib = torch.library.Library("dfb1", "FRAGMENT"); lib.define("f(Tensor a) -> Tensor")
        lib.impl("f", lambda a: torch.tensor(a.detach().numpy() + 1), "CPU")
        torch._C._set_autograd_fallback_mode("nothing")
        try: print(torch.ops.dfb1.f(torch.ones(2, requires_grad=True)).requires_grad)
        finally: torch._C._set_autograd_fallback_mode("warn")
    """,
    "backward warns at whatever a kernel gave": """
        lib = torch.library.Library("dfb2", "FRAGMENT")
        lib.define("f(Tensor a) -> Tensor"); lib.impl("f", lambda a: a.sin(), "CPU")
        lib.define("g(Tensor a) -> Tensor"); lib.impl("g", lambda a: a, "CPU")
        for op in (torch.ops.dfb2.f, torch.ops.dfb2.g):
            x = torch.zeros(2, requires_grad=True); op(x).sum().backward(); print(x.grad)
    """,
    "no warning where nothing requires grad": """
        lib = torch.library.Library("dfb5", "FRAGMENT")
        lib.define("f(Tensor a) -> Tensor"); lib.impl("f", lambda a: a.sin(), "CPU")
        x = torch.zeros(2, requires_grad=True)
        with torch.no_grad(): y = torch.ops.dfb5.f(x)
        (y + x).sum().backward(); (torch.ops.dfb5.f(torch.zeros(2)) + x).sum().backward()
    """,
    "a write to a view warns for its base": """
        lib = torch.library.Library("dfb3", "FRAGMENT"); lib.define("f(Tensor(a!) a) -> Tensor(a!)")
        lib.impl("f", lambda a: (a.detach().sin_(), a)[1], "CPU")
        x = torch.ones(3, requires_grad=True); w = x.clone(); y = w[0]; torch.ops.dfb3.f(y)
        w.sum().backward(); print(x.grad)
    """,
    "None is an undefined tensor": """
        lib = torch.library.Library("dfb4", "FRAGMENT")
        lib.define("f(Tensor a, Tensor b) -> (Tensor, Tensor)")
        lib.impl("f", lambda a, b: (None, b.clone()), "CPU")
        print(torch.ops.dfb4.f(None, torch.ones(1)))
    """,
    "a namespace can be deleted": """
        first = torch.ops.d_some_ns; del torch.ops.d_some_ns
        print(hasattr(torch.ops, "d_some_ns"), torch.ops.d_some_ns is first)
    """,
    "the older functions take operators of Library.define": """
        co = imp("torch._custom_ops"); lib = torch.library.Library("dlg1", "FRAGMENT")
        lib.define("f(Tensor x) -> Tensor"); co.impl("dlg1::f", func=lambda x: x.detach().sin())
        co.impl_save_for_backward("dlg1::f", func=lambda i, o: i.x)
        co.impl_backward("dlg1::f", func=lambda c, s, g: {"x": g * s.cos()})
        x = torch.zeros(1, requires_grad=True); print(torch.autograd.grad(torch.ops.dlg1.f(x), x))
    """,
    "impl where a kernel serves all": """
        co = imp("torch._custom_ops"); lib = torch.library.Library("dlg2", "FRAGMENT")
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x.sin(), "CompositeExplicitAutograd")
        co.impl("dlg2::f", func=lambda x: x)
    """,
    "a formula for what autograd goes through": """
        co = imp("torch._custom_ops"); lib = torch.library.Library("dlg6", "FRAGMENT")
        lib.define("f(Tensor x) -> Tensor"); lib.impl("f", lambda x: x.sin(), "Autograd")
        co.impl_backward("dlg6::f", func=lambda c, s, g: {"x": g})
    """,
    "a formula for a write": """
        co = imp("torch._custom_ops"); lib = torch.library.Library("dlg7", "FRAGMENT")
        lib.define("f(Tensor(a!) x) -> ()")
        co.impl_save_for_backward("dlg7::f", func=lambda i, o: i.x)
    """,
    "no formula comes before no kernel": """
        co = imp("torch._custom_ops")
        @co.custom_op("dlg3::f")
        def f(x: torch.Tensor) -> torch.Tensor: ...
        for x in (torch.ones(1, requires_grad=True), torch.ones(1), torch.ones(1, device="meta")):
            try: torch.ops.dlg3.f(x)
            except Exception as e: print(isinstance(e, NotImplementedError), isinstance(e, RuntimeError))
        co._destroy("dlg3::f")
    """,
    "kinds of parameters must agree": """
        @imp("torch._custom_op.impl").custom_op("dlg4::f", "(Tensor x, *, Tensor y) -> Tensor")
        def f(x, y): ...
    """,
    "CustomOp is not made by hand": """
        imp("torch._custom_op.impl").CustomOp(None, None, None, None, None)
    """,
    "a malformed schema": """
        imp("torch._custom_ops").custom_op("dlg5::f", "(")
    """,
    "any sequence is a list of ints": """
        import collections.abc
        class Sq(collections.abc.Sequence):
            def __getitem__(self, i): return (1, 2, 3)[i]
            def __len__(self): return 3
        lib = torch.library.Library("dsq1", "FRAGMENT"); lib.define("f(Tensor x, int[] s) -> Tensor")
        lib.impl("f", lambda x, s: (print(s), x.clone())[1], "CPU")
        torch.ops.dsq1.f(torch.ones(1), Sq())
    """,
    "register_vmap with a keyword-only tensor": """
        with torch.library._scoped_library("dkv1", "FRAGMENT") as lib:
            lib.define("f(Tensor x, *, Tensor y) -> Tensor")
            torch.library.register_vmap("dkv1::f", lambda info, in_dims, x, *, y: (x, 0))
    """,
    "a view by a SymInt": """
        @torch.library.custom_op("dvs1::f", mutates_args=(), schema="(Tensor(a) t, SymInt i) -> Tensor(a)")
        def f(t, i): return t.view_as(t)
        f.register_autograd(lambda *a: None, setup_context=lambda *a: None)
        torch.ops.dvs1.f(torch.ones(2), 2)
    """,
    "defaults as they were written": """
        @torch.library.custom_op("ddv1::f", mutates_args=())
        def f(x: torch.Tensor, j: torch.device = "cpu", d: torch.dtype = torch.float) -> torch.Tensor:
            print(repr(j)); return x.clone()
        f(torch.ones(1))
        print([a.default_value for a in torch.ops.ddv1.f.default._schema.arguments[1:]])
    """,
    "a kernel that is not there is not switched": """
        @torch.library.custom_op("dsk1::f", mutates_args=())
        def f(x: torch.Tensor) -> torch.Tensor: return x + 1
        with f.set_kernel_enabled("gpu", enabled=False): print(f(torch.ones(1)))
    """,
    "impl looks at the key at once": 'torch.library.impl("nope::f", "nonsense")',
    "where of one argument": "print(torch.ops.aten.where.default._schema, torch.ops.aten.where.default(torch.tensor([0, 1])))",
    "index_put with None": """
        print(torch.ops.aten.index_put(torch.zeros(3, 2), [None, torch.tensor([1])], torch.ones(1)))
        print(torch.ops.aten.index_put_(torch.zeros(3, 2), [None, torch.tensor([1])], torch.ones(1)))
        torch.index_put(torch.zeros(3, 2), (None, torch.tensor([1])), torch.ones(1))
    """,
    "a size that depends on data": """
        @torch.library.custom_op("ddd1::nz", mutates_args=())
        def nz(x: torch.Tensor) -> torch.Tensor: return x.nonzero()
        @nz.register_fake
        def _(x): return x.new_empty([torch.library.get_ctx().new_dynamic_size(), x.dim()], dtype=torch.long)
        print(set(torch.library.opcheck(nz, (torch.tensor([0., 1.]),)).values()))
        nz(torch.ones(2, device="meta"))
    """,
    "opcheck of a kernel for all that is recorded": """
        with torch.library._scoped_library("doc1", "FRAGMENT") as lib:
            lib.define("f(Tensor x) -> Tensor")
            lib.impl("f", lambda x: x.sin().cos(), "CompositeExplicitAutograd")
            r = torch.library.opcheck(torch.ops.doc1.f.default, (torch.ones(2, requires_grad=True),), raise_exception=False)
        __import__("warnings").warn("as torch's run of it gives", UserWarning)
        print({k[5:]: v if isinstance(v, str) else type(v).__name__ for k, v in r.items()})
    """,
    "lookup of operators": """
        u, i = imp("torch._library.utils"), imp("torch._custom_op.impl")
        print(u.lookup_op("aten::sin"), u.lookup_op("aten::add.Tensor"), i.get_op("aten::sin"))
        for f, n in ((u.lookup_op, "x"), (u.lookup_op, "no::x"), (i.get_op, "no::x"), (i.get_op, "x"), (i.get_op, "aten::add.Tensor")):
            try: f(n)
            except Exception as e: print(type(e).__name__)
    """,
    "questions on schemas": """
        u = imp("torch._library.utils")
        for s in ("(Tensor x) -> Tensor", "(Tensor(a) x) -> Tensor(a)", "(Tensor(a!) x) -> ()", "(Tensor x) -> ()",
                  "(Tensor(a) x, Tensor y) -> Tensor(a)", "(int y, Tensor(a) x) -> Tensor(a)", "(Tensor(a)[] x) -> Tensor(a)[]",
                  "(Tensor(a) x, Tensor(b) y) -> (Tensor(a), Tensor(b))", "(Tensor(a) x) -> (Tensor(a), int)"):
            print(u.is_functional_schema("a::b" + s), u.is_functional_schema("a::b" + s, allow_valid_view=True))
        for s in ("Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "Tensor[]?", "int"):
            t = torch._C.parse_schema(f"a::b({s} x) -> ()").arguments[0].type
            print(u.is_tensorlist_like_type(t), u.is_tensor_like_type(t))
        u.is_functional_schema(torch.ops.aten.sin.default)
    """,
    "layout tags": """
        u = imp("torch._library.utils"); lib = torch.library.Library("dlt", "FRAGMENT")
        lib.define("f(Tensor x) -> Tensor", tags=(torch.Tag.flexible_layout, torch.Tag.needs_exact_strides))
        lib.define("g(Tensor x) -> Tensor")
        for op in (torch.ops.dlt.f.default, torch.ops.dlt.g.default, torch.ops.aten.sin.default):
            print(u.get_layout_constraint_tag(op), u.get_layout_constraint_tag(op, with_default=False), op._defined_in_python)
    """,
    "the types that schemas know": """
        import typing
        s = imp("torch._library.infer_schema")
        print(sorted(s.SUPPORTED_RETURN_TYPES.values()), s.SUPPORTED_PARAM_TYPES[typing.Optional[typing.List[int]]])
        for t in (tuple, typing.Tuple[int], typing.Tuple[int, ...], typing.Tuple[int, str], typing.Tuple[int, int]):
            print(s.tuple_to_list(t))
        print(imp("torch._custom_op.impl").SUPPORTED_DEVICE_TYPE_TO_KEY)
    """,
    "lists in Functions": """
        @imp("torch._library.autograd").supports_tensorlist
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, xs, y): return [x * 2 for x in xs], y * 3
            @staticmethod
            def backward(ctx, gs, gy): print(ctx.needs_input_grad, type(gs)); return [g * 2 for g in gs], gy * 3
        a, b, c = torch.ones(1, requires_grad=True), torch.ones(1), torch.ones(1, requires_grad=True)
        r = F.apply([a, b], c); torch.autograd.backward([r[0][0].sum(), r[1].sum()]); print(r, a.grad, c.grad)
        F.forward(None, [a], b)
    """,
    "registered fakes": """
        lib = torch.library.Library("drf", "FRAGMENT"); lib.define("f(Tensor x) -> Tensor")
        e = imp("torch._library.simple_registry").singleton.find("drf::f"); print(e.fake_impl.kernel)
        torch.library.register_fake("drf::f", lambda x: x); print(e.fake_impl.kernel.func is not None, type(e.fake_impl.kernel.source))
    """,
    "the registry of the older interface": """
        i = imp("torch._custom_op.impl")
        @i.custom_op("dgr::f")
        def f(x: torch.Tensor) -> torch.Tensor: ...
        print("dgr::f" in i.global_registry, i.global_registry["dgr::f"] is f); f._destroy(); print("dgr::f" in i.global_registry)
    """,
    "rules of modes for an operator": """
        mode = imp("torch.utils._python_dispatch").TorchDispatchMode
        class Mine(mode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {}))
        lib = torch.library.Library("dtr", "FRAGMENT"); lib.define("f(Tensor x) -> Tensor"); lib.impl("f", lambda x: x + 1, "CPU")
        lib._register_torch_dispatch_rule("f", Mine, lambda m, func, types, args, kwargs: args[0] * 5)
        with Mine(): print(torch.ops.dtr.f(torch.ones(1)))
        print(torch.ops.dtr.f(torch.ones(1)))
    """,
}


@pytest.mark.parametrize("about", PROGRAMS)
def test_both_libraries_do_the_same(about):
    agree(PROGRAMS[about], but=["DeprecationWarning"])  # torch gives each of them once
