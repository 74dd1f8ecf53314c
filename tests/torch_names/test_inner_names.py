"""Inner names of torch that libraries import: each does here what it does there."""

import typing

import pytest

import pullback as torch


def test_hints_of_every_module_class_can_be_read():
    named = [getattr(torch.nn, name) for name in torch.nn.__all__]
    layers = [k for k in named if isinstance(k, type) and issubclass(k, torch.nn.Module)]
    assert len(layers) > 100
    for kind in layers:
        typing.get_type_hints(kind)


def test_arguments_of_to_are_told_apart():
    parse = torch._C._nn._parse_to
    assert parse("cpu") == (torch.device("cpu"), None, False, None)
    assert parse(torch.float64) == (None, torch.float64, False, None)
    assert parse(torch.ones(1)) == (torch.device("cpu"), torch.float32, False, None)
    assert parse("cpu", torch.half, non_blocking=True, memory_format=torch.channels_last) == (
        *(torch.device("cpu"), torch.half, True, torch.channels_last),
    )


def test_trees_are_taken_apart_with_their_keys():
    from pullback.utils import _pytree

    pairs, keys = _pytree._dict_flatten_with_keys({"a": 1, "b": 2})
    assert [(str(key), value) for key, value in pairs] == [("['a']", 1), ("['b']", 2)]
    assert _pytree._dict_unflatten([value for _, value in pairs], keys) == {"a": 1, "b": 2}
    assert [value for _, value in _pytree._list_flatten_with_keys([3, 4])[0]] == [3, 4]


def test_the_mode_of_make_fx_is_found_inside_it_alone():
    from pullback.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

    seen = []
    make_fx(lambda x: seen.append(get_proxy_mode()) or x * 2)(torch.ones(2))
    assert get_proxy_mode() is None
    assert all(mode is not None for mode in seen)
    assert seen


def test_elements_are_printed_for_classes_that_print_themselves():
    from pullback import _tensor_str

    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    inner = _tensor_str._tensor_str(x, 7)
    assert f"tensor({inner}, requires_grad=True)" == repr(x)
    assert _tensor_str._str(x) == repr(x)
    assert _tensor_str._str(x, tensor_contents=inner) == repr(x)
    assert _tensor_str._add_suffixes("T([1]", ["n=2"], 2, False) == "T([1], n=2)"


def test_the_line_search_finds_the_bottom_of_a_parabola():
    from pullback.optim.lbfgs import _cubic_interpolate, _strong_wolfe

    def at(x, t, d):
        moved = x + t * d
        return float((moved**2).sum()), 2 * moved

    x, d = torch.tensor([1.0]), torch.tensor([-1.0])
    loss, g, t, tries = _strong_wolfe(at, x, 0.3, d, 1.0, 2 * x, -2.0)
    assert loss < 0.5
    assert tries >= 1
    torch.testing.assert_close(g, 2 * (x + t * d))
    assert _cubic_interpolate(0.0, 1.0, -2.0, 2.0, 1.0, 2.0) == pytest.approx(1.0)
    # A step that descends half as much as the slope promises is nowhere before the bottom.
    assert _strong_wolfe(at, x, 1.5, d, 1.0, 2 * x, -2.0, c1=0.4)[2] <= 1.2
    _, _, loose, _ = _strong_wolfe(at, x, 0.3, d, 1.0, 2 * x, -2.0)
    _, _, tight, _ = _strong_wolfe(at, x, 0.3, d, 1.0, 2 * x, -2.0, c2=0.1)
    assert abs(tight - 1) < abs(loose - 1)


def test_the_line_search_stays_where_there_is_no_way():
    from pullback.optim.lbfgs import _strong_wolfe

    zeros = torch.zeros(2)
    found = _strong_wolfe(lambda x, t, d: (0.0, zeros), zeros, 1.0, zeros, 0.0, zeros, zeros[0])
    assert found[::2] == (0.0, 1.0)
    assert found[3] == 1


def test_inner_parts_of_functional_derivatives():
    functional = torch.autograd.functional
    x = torch.ones(2, requires_grad=True)
    (fresh,) = functional._grad_preprocess((x,), create_graph=False, need_graph=True)
    assert fresh.requires_grad
    assert fresh is not x
    (cut,) = functional._grad_preprocess((x,), create_graph=False, need_graph=False)
    assert not cut.requires_grad
    assert not functional._grad_postprocess((x * 2,), create_graph=False)[0].requires_grad
    assert functional._tuple_postprocess((1,), False) == 1
    assert functional._tuple_postprocess(((1, 2), (3, 4)), (True, True)) == ((1, 2), (3, 4))
    assert functional._tuple_postprocess(((1,), (3,)), (True, False)) == (1, 3)


def test_a_function_for_workers_is_refused_before_there_are_any():
    from pullback.distributed.rpc.api import _require_initialized

    @_require_initialized
    def answer():
        return 42

    with pytest.raises(RuntimeError, match="init_rpc"):
        answer()


def test_transforms_are_known_to_be_active():
    active = torch._C._are_functorch_transforms_active
    seen = []
    torch.func.grad(lambda x: seen.append(active()) or x.sum())(torch.ones(2))
    assert seen == [True]
    assert not active()


def test_operators_that_libraries_name_run():
    aten = torch.ops.aten
    x = torch.arange(9.0).view(1, 1, 3, 3)
    w = torch.ones(1, 1, 2, 2)
    tail = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, False, False)
    assert torch.equal(aten._convolution(x, w, None, *tail), torch.nn.functional.conv2d(x, w))
    assert aten.to.dtype(x, torch.float64).dtype == torch.float64
    assert aten.to.other(x, torch.ones(1, dtype=torch.int32)).dtype == torch.int32
    assert aten.to.device(x, "cpu", torch.float16).dtype == torch.float16
    assert aten.to.dtype_layout(x, dtype=torch.float64, copy=True).dtype == torch.float64
    with pytest.raises(RuntimeError, match="layout"):
        aten.to.dtype_layout(x, layout=torch.sparse_coo)
    assert aten._assert_async(torch.tensor(True)) is None
    with pytest.raises(RuntimeError, match="too long"):
        aten._assert_async.msg(torch.tensor(False), "too long")
    with pytest.raises(RuntimeError, match="negative"):
        aten._assert_scalar(0, "negative")
    a = torch.tensor([[1.0, 0.0], [2.0, 3.0]]).to_sparse_csr()
    assert aten._sparse_mm_reduce_impl(a, torch.ones(2, 2), "sum")[0].tolist() == [[1, 1], [5, 5]]
    assert aten._sparse_addmm(torch.ones(2, 2), a, torch.ones(2, 2)).tolist() == [[2, 2], [6, 6]]


def test_fake_tensors_are_left_for_a_while():
    from pullback._subclasses.fake_tensor import FakeTensorMode, is_fake, unset_fake_temporarily

    with FakeTensorMode() as mode:
        assert is_fake(torch.ones(2))
        with unset_fake_temporarily() as left:
            assert left is mode
            assert not is_fake(torch.ones(2))
        assert is_fake(torch.ones(2))
    with unset_fake_temporarily() as left:
        assert left is None
