"""Meshes: ranks as a grid, parts of it by name, and a group along each dimension."""

import pickle

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.device_mesh import DeviceMesh, _mesh_resources, init_device_mesh


def grid(*shape, names=None):
    return init_device_mesh("cpu", shape, mesh_dim_names=names)


def ranks_of(group):
    return dist.get_process_group_ranks(group)


def summed(group):
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x, group=group)
    return x.item()


def test_a_mesh_knows_its_form_and_this_ranks_place():
    def one():
        mesh = grid(2, 3, names=("dp", "tp"))
        rank = dist.get_rank()
        assert mesh.shape == (2, 3)
        assert (mesh.size(), mesh.size(0), mesh.size(-1), mesh.ndim) == (6, 2, 3, 2)
        assert mesh.mesh.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert mesh.mesh.dtype == torch.int32
        assert mesh.mesh_dim_names == ("dp", "tp")
        assert mesh.get_rank() == rank
        assert mesh.get_coordinate() == divmod(rank, 3)
        assert (mesh.get_local_rank(0), mesh.get_local_rank("tp")) == divmod(rank, 3)
        assert mesh["tp"].get_local_rank() == rank % 3
        return repr(mesh), repr(mesh["dp"]), repr(grid(6)), repr(grid(1, 6, names=("a", "b")))

    assert dist.threads.run(one, 6)[5] == (
        "DeviceMesh((dp=2, tp=3), 'cpu', stride=(3, 1))",
        "DeviceMesh((dp=2), 'cpu', stride=(3,))",
        "DeviceMesh((6,), 'cpu', stride=(1,))",
        "DeviceMesh((a=1, b=6), 'cpu', stride=((), 1))",
    )


def test_groups_along_a_dimension_reduce_over_it():
    def one():
        mesh = grid(2, 2, names=("dp", "tp"))
        assert mesh.get_all_groups() == [mesh.get_group(0), mesh.get_group("tp")]
        assert mesh["dp"].get_group() is mesh.get_group("dp")
        assert mesh.get_group(-1) is mesh.get_group("tp")
        return summed(mesh.get_group("dp")), summed(mesh.get_group("tp"))

    assert dist.threads.run(one, 4) == [(2, 1), (4, 1), (2, 5), (4, 5)]


def test_parts_are_what_lies_along_their_dimensions_through_this_rank():
    def one():
        mesh = grid(2, 2, 2, names=("a", "b", "c"))
        assert mesh["a", "b", "c"] is mesh
        assert mesh["a", "c"]["c"] == mesh["c"]
        assert mesh["a"] != mesh["c"]
        assert hash(mesh["a"]) == hash(mesh["a"])
        assert mesh["b"]._get_root_mesh() is mesh
        return mesh["a", "c"].mesh.tolist(), mesh["a", "c"].get_coordinate()

    found = dist.threads.run(one, 8)
    assert found[0] == (*found[5][:1], (0, 0)) == ([[0, 1], [4, 5]], (0, 0))
    assert found[6] == ([[2, 3], [6, 7]], (1, 0))


def test_dimensions_can_be_flattened_even_with_others_between():
    def one():
        mesh = grid(2, 2, 2, names=("a", "b", "c"))
        outer = mesh["a", "c"]._flatten()
        assert mesh["a_c"] is not mesh
        assert mesh["a_c"] == outer == mesh["a", "c"]._flatten("a_c")
        assert outer.size() == 4
        assert mesh["a", "b"]._flatten("ab").get_group().size() == 4
        assert repr(mesh["ab", "c"]) == "DeviceMesh((ab=4, c=2), 'cpu', stride=(2, 1))"
        everyone = mesh._flatten("all")
        assert everyone.get_group() is dist.group.WORLD
        with pytest.raises(RuntimeError, match="a dimension 'b' already"):
            mesh["a", "c"]._flatten("b")
        with pytest.raises(KeyError, match="overlap"):
            mesh["a_c", "b"]
        return ranks_of(outer.get_group()), outer.get_local_rank(), outer.mesh.tolist()

    found = dist.threads.run(one, 8)
    assert found[5] == ([0, 1, 4, 5], 3, [0, 1, 4, 5])
    assert found[3] == ([2, 3, 6, 7], 1, [2, 3, 6, 7])


def test_one_dimension_can_become_several_and_parts_one_mesh():
    def one():
        mesh = grid(4, names=("world",))
        assert mesh.get_group() is dist.group.WORLD
        square = mesh._unflatten(0, (2, 2), ("dp", "tp"))
        assert DeviceMesh._concatenate([square["dp"], square["tp"]]) == square
        with pytest.raises(ValueError, match="do not part"):
            mesh._unflatten(0, (3, 2), ("a", "b"))
        return ranks_of(square.get_group("dp")), square.get_coordinate()

    assert dist.threads.run(one, 4)[2] == ([0, 2], (1, 0))


def test_ranks_may_lie_in_any_order_and_some_outside():
    def one():
        mesh = DeviceMesh("cpu", torch.tensor([[3, 1], [0, 2]]))
        small = grid(2)
        if dist.get_rank() > 1:
            assert small.get_coordinate() is None
            with pytest.raises(RuntimeError, match="is not in DeviceMesh"):
                small.get_group()
            with pytest.raises(RuntimeError, match="is not in DeviceMesh"):
                small.get_local_rank()
        else:
            assert summed(small.get_group()) == 1.0
        return mesh.get_coordinate(), ranks_of(mesh.get_group(0)), mesh.mesh_dim_names

    found = dist.threads.run(one, 4)
    assert found[0] == ((1, 0), [3, 0], None)
    assert found[1][:2] == ((0, 1), [1, 2])


def test_a_mesh_of_groups_that_are_there():
    def one():
        rows = dist.new_subgroups(2)[0]
        mesh = DeviceMesh.from_group(rows, "cpu", mesh_dim_names=("row",))
        assert mesh.get_group("row") is rows
        columns = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])[0]
        both = DeviceMesh.from_group([columns, rows], "cpu", [[0, 1], [2, 3]])
        assert both.get_all_groups() == [columns, rows]
        with pytest.raises(ValueError, match="2 groups for 1 dimensions"):
            DeviceMesh.from_group([columns, rows], "cpu", [0, 1, 2, 3])
        return mesh.mesh.tolist()

    assert dist.threads.run(one, 4) == [[0, 1], [0, 1], [2, 3], [2, 3]]


def test_meshes_of_a_file_have_no_groups_and_copies_are_the_same():
    def one():
        mesh = grid(2, names=("dp",))
        loaded = pickle.loads(pickle.dumps(mesh))
        assert loaded == mesh
        with pytest.raises(RuntimeError, match="without groups"):
            loaded.get_group()
        with pytest.raises(RuntimeError, match="was entered"):
            _mesh_resources.get_current_mesh()
        with mesh as entered:
            return entered is mesh is _mesh_resources.get_current_mesh()

    assert dist.threads.run(one, 2) == [True, True]


def test_what_is_wrong_is_refused():
    def one():
        mesh = grid(2, 2, names=("dp", "tp"))
        for wrong, error, text in [
            (lambda: mesh["tp", "dp"], KeyError, "not in the mesh's order"),
            (lambda: mesh["pp"], KeyError, r"\['dp', 'tp'\], not \('pp',\)"),
            (lambda: grid(4)["dp"], RuntimeError, "without mesh_dim_names"),
            (lambda: mesh.get_group(), RuntimeError, "2 dimensions; mesh_dim says"),
            (lambda: mesh.get_local_rank(), RuntimeError, "2 dimensions"),
            (lambda: mesh.get_group("pp"), KeyError, "not 'pp'"),
            (lambda: mesh.get_group(7), IndexError, "none is 7"),
            (lambda: grid(8), RuntimeError, "more ranks than 4"),
            (lambda: grid(2, 2, names=("a", "a")), RuntimeError, "different"),
            (lambda: grid(2, 2, names=("a",)), RuntimeError, "1 names for 2 dimensions"),
            (lambda: init_device_mesh("cpu:0", (2,)), RuntimeError, "one type of devices"),
            (lambda: DeviceMesh("cpu", [0, 0]), ValueError, "once"),
            (lambda: DeviceMesh("cpu"), ValueError, "init_device_mesh"),
        ]:
            with pytest.raises(error, match=text):
                wrong()

    dist.threads.run(one, 4)


def test_the_names_are_found_where_torch_has_them():
    import pullback.distributed.tensor

    assert dist.DeviceMesh is pullback.distributed.tensor.DeviceMesh is DeviceMesh
    assert pullback.distributed.tensor.device_mesh.init_device_mesh is init_device_mesh


def test_one_process_of_many_can_be_played():
    dist.init_process_group("fake", rank=5, world_size=8)
    try:
        mesh = grid(2, 4, names=("dp", "tp"))
        assert mesh.get_coordinate() == (1, 1)
        assert ranks_of(mesh.get_group("tp")) == [4, 5, 6, 7]
    finally:
        dist.destroy_process_group()
