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


def test_repr_takes_contents_from_a_subclass():
    class Own(torch.Tensor):
        pass

    x = torch.ones(2, dtype=torch.float64).as_subclass(Own)
    assert torch.Tensor.__repr__(x, tensor_contents="...") == "Own(..., dtype=torch.float64)"
    assert torch.Tensor.__repr__(torch.ones(2), tensor_contents="abc") == "tensor(abc)"


def test_names_that_programs_take_from_where_torch_imports_them():
    import pullback.functional
    import pullback.nn.grad

    assert pullback.functional.F is torch.nn.functional
    assert torch.nn.functional.grad is pullback.nn.grad
    assert torch.ops.aten.add.Tensor._name == "aten::add.Tensor"
    assert torch.ops.aten.relu.default._name == "aten::relu"
    kinds = (torch.nn.InstanceNorm1d, torch.nn.InstanceNorm2d, torch.nn.InstanceNorm3d)
    assert [kind(2)._get_no_batch_dim() for kind in kinds] == [2, 3, 4]
    cycle = torch.optim.lr_scheduler.OneCycleLR
    assert cycle._annealing_linear(1.0, 0.0, 0.25) == 0.75
    assert cycle._annealing_cos(1.0, 0.0, 0.25) == pytest.approx(0.8535533905932737)


def test_files_are_opened_by_path_and_by_themselves(tmp_path):
    from pullback import serialization

    path = tmp_path / "tensor.pt"
    with serialization._open_file_like(path, "wb") as file:
        torch.save(torch.ones(2), file)
    assert file.closed
    with serialization._open_file_like(path, "rb") as file:
        assert serialization._is_zipfile(file)
        assert file.tell() == 0
        with serialization._open_file_like(file, "rb") as same:
            assert same is file
        assert not file.closed
    with pytest.raises(RuntimeError, match="read or written"):
        serialization._open_file_like(path, "x")
    torch.save(torch.ones(2), path, _use_new_zipfile_serialization=False)
    with open(path, "rb") as file:
        assert not serialization._is_zipfile(file)
    torch.save(torch.ones(2), path, pickle_protocol=serialization.DEFAULT_PROTOCOL)
    assert serialization.STORAGE_KEY_SEPARATOR == ","


def test_old_storages_are_named_by_dtype():
    from pullback import storage

    names = storage._dtype_to_storage_type_map()
    assert names[torch.float64] == "DoubleStorage"
    assert storage._storage_type_to_dtype_map()["LongStorage"] == torch.int64
    assert torch.Storage.dtype == torch.float32
    assert storage._get_always_warn_typed_storage_removal() is False


def test_a_tensor_enters_and_leaves_a_running_map():
    from pullback._functorch.vmap import (
        _add_batch_dim,
        _broadcast_to_and_flatten,
        _get_name,
        _maybe_remove_batch_dim,
    )

    held, seen = torch.arange(6.0).reshape(3, 2), []

    def inside(x):
        level = torch._C._functorch.maybe_current_level()
        mine = _add_batch_dim(held, 1, level)
        seen.append((mine.shape, _maybe_remove_batch_dim("inside", mine + x, level, 2, 1)))
        seen.append(_maybe_remove_batch_dim("inside", torch.ones(3), level, 2, 0).shape)
        with pytest.raises(ValueError, match="out_dim"):
            _maybe_remove_batch_dim("inside", mine, level, 2, None)
        return mine + x

    out = torch.vmap(inside)(torch.zeros(2, 3))
    assert torch.equal(out, held.T)
    assert seen[0][0] == (3,)
    assert torch.equal(seen[0][1], held)
    assert seen[1] == (2, 3)
    with pytest.raises(RuntimeError, match="No vmap"):
        _add_batch_dim(held, 0, 1)
    spec = torch.utils._pytree.tree_structure([1, (2, 3)])
    assert _broadcast_to_and_flatten(0, spec) == [0, 0, 0]
    assert _broadcast_to_and_flatten([0, (1, None)], spec) == [0, 1, None]
    assert _broadcast_to_and_flatten([0], spec) is None
    assert _get_name(torch.sin) == "sin"


def test_modules_that_libraries_import_at_their_top():
    from pullback.distributed._tensor.experimental import register_sharding

    import pullback.distributed  # noqa: F401  # which adds the two below
    from pullback.distributed.tensor.parallel.style import ParallelStyle
    from pullback.utils.data._utils.collate import np_str_obj_array_pattern
    from pullback.utils.data._utils.worker import _generate_state
    from pullback.utils.data.dataloader import _collate_fn_t

    with pytest.raises(RuntimeError, match="not possible here"):
        register_sharding()
    assert not isinstance(3, ParallelStyle)
    assert np_str_obj_array_pattern.search("<U3")
    assert _generate_state(5, 1) == [3025039489, 3528014902, 3507927383, 2601490367]
    assert typing.get_origin(_collate_fn_t) is not None


def test_registrations_on_all_modules_are_seen_by_torchs_names():
    from pullback.nn.modules import module

    hook = module.register_module_parameter_registration_hook(lambda *args: None)
    assert len(module._global_parameter_registration_hooks) == 1
    hook.remove()
    assert not module._global_parameter_registration_hooks
