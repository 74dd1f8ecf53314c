"""Whole programs under vmap and the other transforms: what torch prints, we print."""

import pytest

from tests.differential.printed import agree

pytest.importorskip("torch")


def test_tensors_show_the_transforms_that_hold_them():
    agree(
        """
        func.grad(lambda t: (print(t), t)[1])(torch.tensor(2.0))
        func.vmap(lambda t: (print(t), t)[1])(torch.ones(2))
        func.vmap(func.grad(lambda t: (print(t), t)[1]))(torch.ones(2))
        """
    )


def test_nodes_of_functions_inside_grad_have_a_name_of_their_own():
    agree(
        """
        class FB(torch.autograd.Function):
            forward = staticmethod(lambda x: x.clone())
            setup_context = staticmethod(lambda ctx, inputs, output: None)
            backward = staticmethod(lambda ctx, g: g)


        func.grad(lambda x: (y := FB.apply(x), print(type(y.grad_fn).__name__))[0])(
            torch.tensor(1.0)
        )
        """
    )


def test_dims_of_nested_arguments_are_nested():
    agree(
        """
        class I(torch.autograd.Function):
            forward = staticmethod(lambda x, y: None)
            setup_context = staticmethod(lambda ctx, inputs, output: None)
            vmap = staticmethod(
                lambda info, in_dims, x, y: (print(in_dims), ((x, y), in_dims))[1]
            )


        func.vmap(I.apply)(torch.ones(2), [torch.ones(2), torch.ones(2)])
        """
    )


def test_dims_of_results_have_the_structure_of_the_results():
    agree(
        """
        class Z(torch.autograd.Function):
            forward = staticmethod(lambda x: x.clone())
            setup_context = staticmethod(lambda ctx, inputs, output: None)
            vmap = staticmethod(lambda info, in_dims, x: ([torch.zeros(3)], (None,)))


        print(func.vmap(Z.apply)(torch.ones(2, 3)))
        """
    )


def test_keyword_only_arguments_of_functions_are_refused_inside_vmap():
    agree(
        """
        class KO(torch.autograd.Function):
            forward = staticmethod(lambda x, *, y: x + y)
            setup_context = staticmethod(lambda ctx, inputs, output: None)
            vmap = staticmethod(lambda info, in_dims, x, *, y: (x + y, 0))


        func.vmap(KO.apply)(torch.ones(3), y=torch.ones(3))
        """
    )


def test_in_place_changes_of_shape_work_on_examples():
    agree(
        """
        r = []
        for f in (
            lambda t: t.squeeze_(0),
            lambda t: t.unsqueeze_(0),
            lambda t: t.transpose_(0, 1),
            lambda t: t.t_(),
            lambda t: t.resize_(2),
        ):
            try:
                r.append(tuple(func.vmap(f)(torch.ones(3, 1, 2)).shape))
            except Exception as e:
                r.append(type(e).__name__)
        print(r)
        """
    )


def test_bernoulli_takes_mapped_probabilities():
    agree(
        """
        print(
            func.vmap(lambda t, p: t.bernoulli_(p), randomness="different")(
                torch.zeros(4, 3), torch.full((4, 3), 0.5)
            ).shape
        )
        """
    )


def test_two_levels_draw_in_the_order_of_one_call():
    agree(
        """
        f = lambda x: x + torch.randn(())
        torch.manual_seed(0)
        a = func.vmap(func.vmap(f, randomness="different"), randomness="different")(
            torch.zeros(2, 3)
        )
        torch.manual_seed(0)
        print(torch.equal(a, torch.randn(2, 3)))
        """
    )


def test_fills_go_in_the_order_of_memory():
    agree(
        """
        for f in (torch.Tensor.uniform_, torch.Tensor.exponential_):
            torch.manual_seed(1)
            a = f(torch.zeros(3, 2).t())
            torch.manual_seed(1)
            b = f(torch.zeros(3, 2)).t()
            torch.manual_seed(1)
            c = f(torch.zeros(2, 3))
            print(torch.equal(a, b), torch.equal(a, c))
        """
    )


def test_random_operators_with_out_are_refused_inside_vmap():
    agree(
        """
        r = []
        for f in (
            lambda x: torch.randn(3, out=torch.ones(3)),
            lambda x: torch.rrelu(torch.ones(3)),
        ):
            try:
                func.vmap(f, randomness="same")(torch.ones(3))
                r.append("ok")
            except Exception as e:
                r.append(type(e).__name__)
        print(r)
        """
    )


def test_data_is_refused_inside_vmap():
    agree(
        """
        r = []


        def g(x):
            x.data = torch.ones(3)
            return x


        for f in (lambda x: (x.data, x)[1], g):
            try:
                func.vmap(f)(torch.ones(3, 3))
                r.append("ok")
            except Exception as e:
                r.append(type(e).__name__)
        print(r)
        """
    )


def test_formats_of_examples_cannot_be_asked_for():
    agree(
        """
        func.vmap(lambda x: (x.is_contiguous(memory_format=torch.channels_last), x)[1])(
            torch.ones(3, 2, 7, 3)
        )
        print("no error")
        """
    )


def test_offsets_of_examples_count_from_the_memory_of_the_batch():
    agree(
        """
        x = torch.arange(60.0).reshape(2, 5, 2, 3)[1]
        print(func.vmap(lambda a: a.as_strided((3, 2), (1, 3), x.storage_offset()))(x).shape)
        """
    )


def test_squeezing_an_example_without_dimensions_is_a_view():
    agree(
        """
        x = torch.rand(2)
        print(func.vmap(lambda t: torch.squeeze(t, dim=0))(x)._base is x)
        func.vmap(lambda t: torch.squeeze(t, dim=1))(x)
        """
    )


def test_new_empty_strided_gives_each_example_its_memory():
    agree(
        """
        print(func.vmap(lambda t: t.new_empty_strided([2, 3], [3, 1]))(torch.ones(4)).stride())
        """
    )


def test_index_fill_keeps_examples_without_dimensions():
    agree(
        """
        print(
            func.vmap(lambda t: torch.index_fill(t, 0, torch.tensor([0]), torch.tensor(1.0)))(
                torch.zeros(2)
            ).shape
        )
        """
    )


def test_gather_of_examples_or_by_indices_without_dimensions():
    agree(
        """
        r = []
        for f, x in (
            (lambda t: torch.gather(t, 0, torch.tensor([0])), torch.zeros(2)),
            (lambda t: torch.gather(t, 0, torch.tensor(0)), torch.zeros(2, 3)),
        ):
            try:
                r.append(tuple(func.vmap(f)(x).shape))
            except Exception as e:
                r.append(type(e).__name__)
        print(r)
        """
    )


def test_functions_that_look_at_values_run_example_by_example():
    agree(
        """
        def t(f, *a):
            try:
                return tuple(func.vmap(f)(*a).shape)
            except Exception as e:
                return type(e).__name__


        A, h, x, two = (
            torch.eye(2).repeat(3, 1, 1),
            torch.full((3,), 0.5),
            torch.rand(3, 4),
            torch.full((3, 2), 2),
        )
        print(
            "pinv, matrix_rank",
            t(lambda a, e: torch.linalg.pinv(a, rtol=e), A, h),
            t(lambda a, e: torch.linalg.matrix_rank(a, atol=e), A, h),
        )
        print("quantile, nanquantile", t(torch.quantile, x, h), t(torch.nanquantile, x, h))
        print(
            "linspace, logspace",
            t(lambda a: torch.linspace(a, 1.0, 5), h),
            t(lambda a: torch.logspace(a, 1.0, 5), h),
        )
        print(
            "repeat_interleave",
            t(lambda a, r: torch.repeat_interleave(a, r, 0), x[:, :2], two),
            "segment_reduce",
            t(lambda a, l: torch.segment_reduce(a, "sum", lengths=l), x, two),
        )
        print(
            "embedding_bag",
            t(
                lambda i, o: F.embedding_bag(i, torch.ones(4, 2), o),
                two,
                torch.zeros(3, 1, dtype=torch.long),
            ),
            "argwhere, bincount",
            t(torch.argwhere, x),
            t(torch.bincount, two),
        )
        """,
        warned=False,  # torch warns of its loops
    )
