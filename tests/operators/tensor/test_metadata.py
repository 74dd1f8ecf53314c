"""Sizes, strides, memory, kind of elements."""

import pytest

import pullback as torch


def test_sizes():
    x = torch.ones(2, 3)
    assert x.size() == torch.Size([2, 3])
    assert (x.size(0), x.size(-1), x.size(dim=1)) == (2, 3, 3)
    assert (x.dim(), x.ndimension(), x.numel(), x.nelement()) == (2, 2, 6, 6)
    assert torch.numel(x) == 6
    with pytest.raises(IndexError, match="dim 2 does not exist"):
        x.size(2)
    with pytest.raises(IndexError, match="no dimensions"):
        torch.tensor(1).size(0)
    with pytest.raises(TypeError, match="must be int"):
        x.size(1.0)
    with pytest.raises(TypeError, match="must be a Tensor"):
        torch.numel([1])


@pytest.mark.parametrize(
    ("tensor", "strides"),
    [
        (torch.ones(2, 3), (3, 1)),
        (torch.ones(2, 3).T, (1, 3)),
        (torch.ones(4, 6)[::2, ::3], (12, 3)),
        (torch.ones(3).expand(2, 3), (0, 1)),
        (torch.ones(2, 0), (1, 1)),
        (torch.ones(0, 3), (3, 1)),
        (torch.tensor(1), ()),
        (torch.ones(2, 3)[:, None], (3, 3, 1)),
        (torch.ones(2, 3)[None], (6, 3, 1)),
        (torch.ones(2)[:, None], (1, 1)),
    ],
)
def test_strides(tensor, strides):
    assert tensor.stride() == strides
    for dim, stride in enumerate(strides):
        assert tensor.stride(dim) == stride


def test_contiguity():
    x = torch.ones(2, 3)
    assert x.is_contiguous()
    assert not x.T.is_contiguous()
    assert torch.ones(1, 3).T.is_contiguous()
    assert torch.ones(0, 3).T.is_contiguous()
    assert not torch.ones(2, 3, 4, 5).is_contiguous(memory_format=torch.channels_last)
    assert x.T.dim_order() == (1, 0)


def test_memory_is_known_by_address():
    x = torch.arange(6.0)
    part = x[2:]
    assert part.data_ptr() == x.data_ptr() + 8
    assert part.storage_offset() == 2
    assert part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert part.untyped_storage().nbytes() == len(part.untyped_storage()) == 24
    assert x.clone().untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert x.detach().is_set_to(x)
    assert not part.is_set_to(x)
    assert torch.ones(0).data_ptr() == 0
    assert (x.element_size(), x.itemsize, x.nbytes) == (4, 4, 24)
    assert torch.ones(3).expand(2, 3).nbytes == 24


def test_kind_of_elements():
    x = torch.ones(2)
    assert x.is_floating_point()
    assert torch.is_floating_point(x)
    assert not x.is_complex()
    assert torch.is_complex(torch.tensor(1j))
    assert not torch.ones(1, dtype=torch.uint8).is_signed()
    with pytest.raises(TypeError, match="must be a Tensor"):
        torch.is_floating_point(3)
    assert torch.is_tensor(x)
    assert not torch.is_tensor([1.0])


def test_place_and_layout():
    x = torch.ones(2)
    assert x.is_cpu
    assert x.layout is torch.strided
    assert x.get_device() == torch.get_device(x) == -1
    assert not any((x.is_cuda, x.is_meta, x.is_sparse, x.is_quantized, x.is_mps, x.is_nested))
    assert not any((x.is_pinned(), x.is_shared(), x.is_conj(), x.is_neg()))
    assert x.is_same_size(torch.zeros(2))
    assert not x.is_same_size(torch.zeros(3))


def test_remains_of_older_versions():
    x = torch.ones(2)
    assert x.name is None
    with pytest.warns(UserWarning, match="no_grad"):
        assert x.volatile is False
    with pytest.warns(UserWarning, match="no_grad"):
        x.volatile = True


def test_an_empty_slice_has_the_strides_of_what_it_was_cut_from():
    x = torch.arange(24.0).reshape(4, 6)
    assert x[1:1].stride() == x[:, 2:2].stride() == x[0:0, 0:0].stride() == (6, 1)
    assert x.t()[2:2].stride() == (1, 6)
    assert x[::2][2:].stride() == (12, 1)
    assert x[1:1, :, None].stride() == (6, 1, 1)
    assert torch.empty(2, 0, 3).stride() == (3, 3, 1)


@pytest.mark.parametrize(
    ("tensor", "order"),
    [
        (lambda: torch.zeros(2, 3, 4).permute(2, 0, 1), (1, 2, 0)),
        (lambda: torch.zeros(2, 3).expand(4, 2, 3), (0, 1, 2)),
        (lambda: torch.zeros(3, 1).t().t(), (0, 1)),
        (lambda: torch.zeros(1, 3).t(), (0, 1)),
        (lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), (0, 2, 3, 1)),
    ],
)
def test_dim_order_leaves_dimensions_without_a_stride_of_their_own_where_they_are(tensor, order):
    assert tensor().dim_order() == order


def test_dim_order_refuses_what_has_several_orders_where_asked():
    several, one = torch.zeros(2, 1, 1, 5), torch.zeros(2, 3, 4, 5)
    formats = [torch.contiguous_format, torch.channels_last]
    assert one.dim_order(ambiguity_check=True) == (0, 1, 2, 3)
    assert one.dim_order(ambiguity_check=formats) == (0, 1, 2, 3)
    last = one.to(memory_format=torch.channels_last)
    assert last.dim_order(ambiguity_check=formats) == (0, 2, 3, 1)
    for check in (True, formats):
        with pytest.raises(RuntimeError, match="no single order"):
            several.dim_order(ambiguity_check=check)
    with pytest.raises(RuntimeError, match="no single order"):
        torch.zeros(3).expand(2, 3).dim_order(ambiguity_check=True)
    for wrong in ("yes", 1, [5]):
        with pytest.raises(TypeError, match="ambiguity_check"):
            one.dim_order(ambiguity_check=wrong)
