"""What gradcheck calls, with what, and what it says: as torch does."""

import pytest

from tests.differential.printed import agree

pytest.importorskip("torch")


def test_outputs_whose_shape_depends_on_values_are_refused():
    agree(
        """
        def f(x):
            return torch.cat([x, x]) if bool((x >= 1).all()) else x


        a = torch.ones(1, dtype=torch.double, requires_grad=True)
        print(torch.autograd.gradcheck(f, (a,)))
        """
    )


def test_undefined_and_batched_tangents_are_checked():
    agree(
        """
        n = [0]


        class U(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x, y: (x.clone(), y.clone()))
            jvp = staticmethod(lambda ctx, a, b: (n.__setitem__(0, n[0] + 1), (a, b))[1])


        x, y = (torch.ones(1, dtype=torch.double, requires_grad=True) for _ in range(2))
        for u, b in ((False, False), (True, False), (True, True)):
            n[0] = 0
            torch.autograd.gradcheck(
                U.apply,
                (x, y),
                check_forward_ad=True,
                check_backward_ad=False,
                check_batched_grad=False,
                check_undefined_grad=u,
                check_batched_forward_grad=b,
            )
            print(n[0])
        """
    )


def test_forward_mode_gets_inputs_without_history():
    agree(
        """
        seen = set()


        class U(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x: (seen.add(x.requires_grad), x.clone())[1])
            jvp = staticmethod(lambda ctx, t: t)


        torch.autograd.gradcheck(
            U.apply,
            (torch.ones(1, dtype=torch.double, requires_grad=True),),
            check_forward_ad=True,
            check_backward_ad=False,
            check_undefined_grad=False,
            check_batched_grad=False,
        )
        print(sorted(seen))
        """
    )


def test_all_inputs_are_dual_at_once():
    agree(
        """
        x, y = (torch.ones(1, dtype=torch.double, requires_grad=True) for _ in range(2))
        seen = set()


        def f(x, y):
            seen.add(tuple(fw.unpack_dual(t)[1] is not None for t in (x, y)))
            return x * y


        torch.autograd.gradcheck(f, (x, y), check_forward_ad=True, check_undefined_grad=False)
        print(sorted(seen))
        """
    )


def test_a_failed_check_of_undefined_gradients_warns():
    agree(
        """
        def f(x):
            y = x.clone()

            def hook(g):
                if g is None:
                    raise RuntimeError

            y.register_hook(hook)
            return y


        torch.autograd.gradcheck(f, (torch.ones(1, dtype=torch.double, requires_grad=True),))
        """
    )
