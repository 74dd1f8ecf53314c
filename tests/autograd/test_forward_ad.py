"""Dual tensors: levels, views, writes, what carries a tangent and what does not."""

import threading

import pytest

import pullback as torch
import pullback.autograd.forward_ad as fwAD  # noqa: N812 (torch's users call it that)

tensor = torch.tensor
x, t = tensor([1.0, 2.0]), tensor([3.0, 4.0])


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


def tangent(value):
    return fwAD.unpack_dual(value).tangent


# Levels -------------------------------------------------------------------------------------------


def test_one_level_may_be_open():
    """T-1"""
    assert fwAD.enter_dual_level() == 0
    try:
        with pytest.raises(RuntimeError, match="nesting"):
            fwAD.enter_dual_level()
        with pytest.raises(RuntimeError, match="level"):
            fwAD.exit_dual_level(level=1)
    finally:
        fwAD.exit_dual_level()
    with pytest.raises(RuntimeError, match="No dual level"):
        fwAD.exit_dual_level()


def test_level_is_a_decorator_and_closes_on_exceptions():
    """T-1"""

    @fwAD.dual_level()
    def derivative():
        return tangent(fwAD.make_dual(x, t) * 2)

    assert same(derivative(), 2 * t)
    with pytest.raises(KeyError), fwAD.dual_level():
        raise KeyError
    assert same(derivative(), 2 * t)


def test_leaving_the_level_erases_tangents():
    """T-6"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
    with fwAD.dual_level():
        assert tangent(dual) is None
        assert tangent(dual * 2) is None


def test_without_a_level():
    """T-1, T-2"""
    with pytest.raises(RuntimeError, match="No dual level"):
        fwAD.make_dual(x, t)
    primal, missing = fwAD.unpack_dual(x)
    assert primal is x
    assert missing is None


# make_dual ----------------------------------------------------------------------------------------


def test_make_dual_aliases_and_leaves_the_tensor_alone():
    """T-2"""
    value = x.clone()
    with fwAD.dual_level():
        dual = fwAD.make_dual(value, t)
        assert tangent(value) is None
        assert tangent(dual) is t
        value.add_(1)
        assert same(dual, x + 1)
        assert repr(dual).startswith(repr(value)[:-1])
        assert not dual.requires_grad


@pytest.mark.parametrize(
    ("primal", "direction", "error"),
    [
        (tensor([1, 2]), t, ValueError),
        (x, tensor([1, 2]), ValueError),
        (x, tensor(1.0), RuntimeError),
    ],
)
def test_make_dual_refuses(primal, direction, error):
    """T-3"""
    with fwAD.dual_level(), pytest.raises(error, match="make_dual"):
        fwAD.make_dual(primal, direction)


def test_duals_of_duals_are_refused():
    """T-3"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        with pytest.raises(RuntimeError, match="already"):
            fwAD.make_dual(dual, t)
        with pytest.raises(RuntimeError, match="tangent itself"):
            fwAD.make_dual(x, dual)


def test_tangent_gets_the_layout_of_its_primal():
    """T-5"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.ones(2, 3), torch.ones(3, 2).T)
        assert tangent(dual).is_contiguous()
        wide = fwAD.make_dual(torch.ones(2, 3), tensor(1.0).expand(2, 3))
        assert tangent(wide).stride() == (3, 1)


# Propagation --------------------------------------------------------------------------------------


def test_results_without_derivative_have_no_tangent():
    """T-7"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        assert tangent(dual > 1) is None
        assert tangent(dual.argmax()) is None
        assert tangent(dual.sort()[1]) is None
        assert tangent(dual.long()) is None
        assert same(tangent(dual.floor()), torch.zeros(2))


def test_modes():
    """T-9"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        with torch.no_grad():
            assert same(tangent(dual * 2), 2 * t)
        with fwAD._set_fwd_grad_enabled(False):
            hidden = dual * 2
            assert tangent(dual) is None
        assert tangent(hidden) is None
        assert tangent(dual) is t


def test_detach_drops_and_clone_keeps():
    """T-10"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        assert tangent(dual.detach()) is None
        assert tangent(dual.data) is None
        assert same(tangent(dual.clone()), t)


def test_out_is_refused():
    """T-8"""
    with fwAD.dual_level(), pytest.raises(NotImplementedError, match="out="):
        torch.add(fwAD.make_dual(x, t), 1, out=torch.empty(2))


# Views and writes ---------------------------------------------------------------------------------


def test_views_share_tangents():
    """T-11"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x.clone(), t.clone())
        part = tangent(dual[1:])
        tangent(dual).mul_(2)
        assert same(part, tensor([8.0]))


def test_writes_keep_the_tangent_object():
    """T-11"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x.clone(), t.clone())
        kept = tangent(dual)
        dual.mul_(3)
        assert tangent(dual) is kept
        assert same(kept, 3 * t)
        dual.zero_()
        assert same(tangent(dual), torch.zeros(2))


def test_write_to_a_result_leaves_the_inputs_tangent():
    """T-11"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t.clone())
        copied = dual + 1
        copied.zero_()
        assert same(tangent(dual), t)


def test_dual_written_into_a_view_makes_the_base_dual():
    """T-12"""
    with fwAD.dual_level():
        base = torch.zeros(3)
        view = base[1:]
        base[1:] = fwAD.make_dual(x, t)
        assert same(tangent(base), tensor([0.0, 3.0, 4.0]))
        assert same(tangent(view), t)


def test_dual_written_into_a_base_reaches_its_views():
    """T-12"""
    with fwAD.dual_level():
        base = torch.zeros(2)
        view = base[1:]
        base.add_(fwAD.make_dual(x, t))
        assert same(tangent(view), tensor([4.0]))


# Other modes --------------------------------------------------------------------------------------


def test_reverse_over_forward():
    """T-14"""
    leaf = x.clone().requires_grad_()
    with fwAD.dual_level():
        moved = tangent((fwAD.make_dual(leaf, t) ** 3).sum())
    assert same(torch.autograd.grad(moved, leaf)[0], 6 * x * t)


def test_forward_over_reverse():
    """T-14"""
    leaf = x.clone().requires_grad_()
    with fwAD.dual_level():
        dual = fwAD.make_dual(leaf, t)
        (gradient,) = torch.autograd.grad((dual**3).sum(), dual)
        assert same(tangent(gradient), 6 * x * t)


def test_duals_inside_vmap():
    """T-89"""
    batch = torch.stack([x, 2 * x])
    with fwAD.dual_level():
        made = torch.vmap(lambda v: tangent(fwAD.make_dual(v, t) ** 2))(batch)
    assert same(made, 2 * batch * t)


def test_write_of_a_dual_makes_a_tensor_dual_and_duals_keep_their_size():
    """T-13"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        target = torch.zeros_like(x)
        target.add_(dual)
        assert same(tangent(target), t)
        with pytest.raises(RuntimeError, match="resize"):
            dual.resize_(7)


def test_level_is_open_in_all_threads():
    """T-16"""
    made = []
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        thread = threading.Thread(target=lambda: made.append(tangent(dual * 2)))
        thread.start()
        thread.join()
    assert same(made[0], 2 * t)


def test_dual_is_a_tensor_like_any_other():
    """T-4, T-21"""
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        assert type(dual) is type(x)
        assert not dual.requires_grad
        assert repr(dual).startswith(repr(x)[:-1])
        primal, stored = fwAD.unpack_dual(dual)
        assert stored is t
        assert fwAD.unpack_dual(primal).tangent is None
        assert fwAD.unpack_dual(x).tangent is None


def test_out_refuses_a_tensor_with_a_tangent():
    plain = torch.ones(2)
    with fwAD.dual_level():
        dual = fwAD.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(NotImplementedError, match="tangent"):
            torch.add(plain, plain, out=dual)
        assert torch.add(plain, plain, out=torch.empty(2)).tolist() == [2, 2]
