"""Whole programs about passes, nodes and hooks: what torch prints, we print."""

import pytest

from tests.differential.printed import agree

pytest.importorskip("torch")


def test_a_hook_that_an_unpack_hook_adds_runs_after_its_node():
    agree(
        """
        def unpack(t):
            node = torch._C._current_autograd_node()
            node.register_hook(lambda gi, go: tuple(g / 2 for g in gi))
            return t


        a = torch.zeros(2, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            a.sin().sum().backward()
        print(a.grad)
        """
    )


def test_the_planned_order_includes_captured_leaves():
    agree(
        """
        a = torch.tensor(1.0, requires_grad=True)
        out = (a * 2).sin()
        got = []
        out.register_hook(
            lambda g: got.append(
                [n.name() for n in torch._C._current_graph_task_execution_order()]
            )
        )
        with torch.autograd.set_multithreading_enabled(False):
            torch.autograd.grad(out, a)
        print(got[0])
        """
    )


def test_nodes_of_double_backward_of_relu_have_torchs_name():
    agree(
        """
        x = torch.ones(2, requires_grad=True)
        (g,) = torch.autograd.grad(F.relu(x).pow(2).sum(), x, create_graph=True)
        print(g.grad_fn.name())
        """
    )


def test_the_error_node_has_an_edge_for_every_argument():
    agree(
        """
        class G(torch.autograd.Function):
            forward = staticmethod(lambda ctx, a, k, b: a * k * b)
            backward = staticmethod(
                torch.autograd.function.once_differentiable(lambda ctx, g: (g, None, g))
            )


        a, b, g = (torch.ones(2, requires_grad=True) for _ in range(3))
        (ga,) = torch.autograd.grad(G.apply(a, 3.0, b), a, g, create_graph=True)
        print(len(ga.grad_fn.next_functions))
        """
    )


def test_gradients_that_nobody_else_holds_are_kept_not_copied():
    agree(
        """
        ptr = []


        class P2(torch.autograd.Function):
            forward = staticmethod(lambda ctx, a, b: a + b)
            backward = staticmethod(lambda ctx, g: (ptr.append(g.data_ptr()), (g, g))[1])


        a = torch.ones(3, 4, requires_grad=True)
        b = torch.ones(3, 4, requires_grad=True)
        P2.apply(a, b)[1][0].backward()
        print(
            a.grad.data_ptr() == b.grad.data_ptr(),
            ptr[0] in (a.grad.data_ptr(), b.grad.data_ptr()),
        )
        """
    )


def test_a_post_hook_sees_what_was_done_to_the_stored_gradient():
    agree(
        """
        p = torch.ones(2, requires_grad=True)
        p.register_hook(lambda g: g * 1)
        node = p.view_as(p).grad_fn.next_functions[0][0]


        def post(t):
            t.grad.add_(0.5)


        p.register_post_accumulate_grad_hook(post)
        node.register_hook(lambda gi, go: print(gi, go[0]))
        p.sum().backward()
        """
    )


def test_a_view_that_a_function_changed_and_saved_is_freed_at_once():
    agree(
        """
        import gc, weakref

        gc.disable()


        class D(torch.autograd.Function):
            forward = staticmethod(
                lambda ctx, x: (ctx.mark_dirty(x), ctx.save_for_backward(x), x)[2]
            )
            backward = staticmethod(lambda ctx, g: g)


        def scope():
            x = torch.ones(1, requires_grad=True).clone()
            x = x.view_as(x)
            D.apply(x)
            return weakref.ref(x)


        print(scope()() is None)
        gc.enable()
        """
    )


def test_contexts_of_hooks_can_be_left_without_arguments():
    agree(
        """
        h = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
        h.__enter__()
        h.__exit__()
        print("ok")
        """
    )


def test_only_nodes_can_be_asked_for():
    agree(
        """
        torch._C._will_engine_execute_node(torch.ones(1, requires_grad=True) * 2)
        """
    )


def test_hooks_of_a_tensor_cannot_be_deleted():
    agree(
        """
        del torch.ones(1)._backward_hooks
        """
    )


def test_checkpoint_gives_saved_inputs_back_as_the_same_object():
    agree(
        """
        got = []


        class K(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x, y: (ctx.save_for_backward(y), x)[1])
            backward = staticmethod(
                lambda ctx, g: (got.append(ctx.saved_tensors[0]), (g, None))[1]
            )


        b = torch.ones(1)
        imp("torch.utils.checkpoint").checkpoint(
            K.apply, torch.ones(1, requires_grad=True), b, use_reentrant=False
        ).backward()
        print(got[0] is b)
        """
    )


def test_inference_tensors_keep_their_shape_outside_of_inference_mode():
    agree(
        """
        with torch.inference_mode():
            c = torch.ones(1, 2)
        c.squeeze_()
        print("no error")
        """
    )


def test_resizing_in_inference_mode_asks_for_no_gradient():
    agree(
        """
        with torch.inference_mode():
            c = torch.ones(1, 2, 3, requires_grad=True)
            c.resize_(1, 2)
            print(c.shape, c.requires_grad)
        """
    )


def test_tangents_lie_in_memory_as_their_primals():
    agree(
        """
        p = torch.arange(5.0)[:4].detach()
        t = torch.ones(4)
        with fw.dual_level():
            d = fw.make_dual(p, t)
            fw.unpack_dual(d).tangent.mul_(2)
            print(t)
            print(fw.unpack_dual(d.as_strided((5,), (1,), 0)).tangent)
        """
    )
