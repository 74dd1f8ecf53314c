"""Tensors on a device: made there, moved, mixed, saved, printed."""

import copy
import io
import pickle

import numpy
import pytest

import pullback as torch


@pytest.fixture(autouse=True)
def there(library):
    """A device for every test of this file."""
    return library


def test_a_device_is_there():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() >= 1
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.device(0) == torch.device("cuda:0")


def test_tensors_say_where_they_are():
    x = torch.ones(2, device="cuda")
    assert x.device == torch.device("cuda:0")
    assert x.is_cuda
    assert not x.is_cpu
    assert x.get_device() == 0
    assert type(x) is torch.Tensor
    assert x.cpu().device == torch.device("cpu")


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: torch.zeros(2, 3, **k),
        lambda **k: torch.ones(2, 3, **k),
        lambda **k: torch.full((2, 3), 7.0, **k),
        lambda **k: torch.arange(6, **k),
        lambda **k: torch.linspace(0, 1, 5, **k),
        lambda **k: torch.eye(3, **k),
        lambda **k: torch.tensor([[1.0, 2.0]], **k),
        lambda **k: torch.as_tensor(numpy.arange(3.0), **k),
        lambda **k: torch.empty(2, 3, **k).fill_(1),
        lambda **k: torch.hann_window(4, **k),
        lambda **k: torch.tril_indices(3, 3, **k),
    ],
)
def test_factories_make_the_same_on_the_device(make):
    there, here = make(device="cuda"), make()
    assert there.is_cuda
    assert there.dtype is here.dtype
    assert (there.cpu() == here).all()


def test_the_default_device_is_where_factories_make_tensors():
    with torch.device("cuda"):
        assert torch.zeros(2).is_cuda
        assert torch.rand(2).is_cuda
    assert not torch.zeros(2).is_cuda


def test_likes_stay_where_their_models_are():
    x = torch.zeros(2, 3, device="cuda")
    for made in (
        torch.ones_like(x),
        x.new_zeros(2),
        torch.rand_like(x),
        x.clone(),
        x.new_tensor([1]),
    ):
        assert made.is_cuda


def test_moving_keeps_values_strides_and_history():
    x = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    y = x.to("cuda")
    assert y.stride() == x.stride()
    assert y.grad_fn is not None
    (y * y).sum().backward()
    assert x.grad.is_cpu
    assert (x.grad == 2 * x.detach()).all()
    assert y.to("cuda") is y
    assert y.cuda() is y
    assert y.to("cuda", torch.float64).dtype is torch.float64


def test_gradients_come_back_to_where_the_forward_came_from():
    w = torch.ones(3, device="cuda", requires_grad=True)
    loss = (w * 2).cpu().sum()
    assert loss.is_cpu
    loss.backward()
    assert w.grad.is_cuda
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_tensors_of_two_devices_do_not_meet():
    x, y = torch.ones(2), torch.ones(2, device="cuda")
    for call in (lambda: x * y, lambda: y * x, lambda: torch.cat([x, y]), lambda: y @ x):
        with pytest.raises(RuntimeError, match="on device 'cpu'"):
            call()


def test_a_host_tensor_of_no_dimensions_meets_device_tensors():
    y = torch.ones(2, device="cuda", requires_grad=True)
    result = y * torch.tensor(3.0)
    assert result.is_cuda
    assert result.tolist() == [3.0, 3.0]


def test_numbers_take_the_dtype_of_device_tensors():
    x = torch.ones(2, device="cuda")
    assert (x * 2).dtype is torch.float32
    assert (x.half() * 2.5).dtype is torch.float16
    assert (torch.ones(2, dtype=torch.int64, device="cuda") / 2).dtype is torch.float32
    assert (2 - x).tolist() == [1.0, 1.0]


def test_gradients_accumulate_on_the_device():
    w = torch.ones(2, 3, device="cuda", requires_grad=True)
    for _ in range(2):
        (w * torch.full((2, 3), 2.0, device="cuda")).sum().backward()
    assert w.grad.is_cuda
    assert (w.grad.cpu() == 4).all()


def test_double_gradients_and_jvp_run_on_the_device():
    x = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    assert gg.tolist() == [6.0, 12.0]
    out, tangent = torch.func.jvp(torch.sin, (x.detach(),), (torch.ones(2, device="cuda"),))
    assert out.is_cuda
    assert tangent.is_cuda


def test_views_share_memory_and_writes_show():
    x = torch.zeros(2, 3, device="cuda")
    x[0].fill_(1)
    x.t()[2] += 5
    assert x.tolist() == [[1, 1, 6], [0, 0, 5]]
    assert x.view(6).data_ptr() == x.data_ptr()
    assert x.as_strided((2,), (3,), 2).tolist() == [6, 5]


def test_in_place_writes_are_recorded():
    x = torch.ones(3, device="cuda", requires_grad=True)
    y = x * 2
    y.mul_(3)
    y[0] = 0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 6.0, 6.0]


def test_indices_may_come_from_the_host():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    assert x[torch.tensor([1])].tolist() == [[3, 4, 5]]
    assert x[x > 3].tolist() == [4, 5]
    assert x[:, [0, 2]].tolist() == [[0, 2], [3, 5]]


def test_printing_tells_the_device():
    x = torch.tensor([1.0, 2.0], device="cuda")
    assert repr(x) == "tensor([1., 2.], device='cuda:0')"


def test_numpy_refuses_what_is_not_on_the_host():
    x = torch.ones(2, device="cuda")
    with pytest.raises(TypeError, match=r"cpu\(\)"):
        x.numpy()
    with pytest.raises(TypeError, match="cuda:0"):
        numpy.asarray(x)
    assert x.numpy(force=True).tolist() == [1, 1]


def test_pickles_and_copies_stay_on_the_device():
    x = torch.arange(6.0, device="cuda").reshape(2, 3).t()
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert again.is_cuda
        assert again.stride() == x.stride()
        assert (again == x).all()


def test_files_remember_the_device_and_map_location_changes_it():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    file = io.BytesIO()
    torch.save({"x": x, "row": x[1]}, file)
    file.seek(0)
    same = torch.load(file)
    assert same["x"].is_cuda
    assert same["row"].tolist() == [3, 4, 5]
    same["x"].zero_()
    assert same["row"].tolist() == [0, 0, 0]  # on one storage, as before
    file.seek(0)
    moved = torch.load(file, map_location="cpu")
    assert moved["x"].is_cpu
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    assert torch.load(file, map_location="cuda").is_cuda


def test_modules_and_optimizers_move_as_a_whole():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    twin = copy.deepcopy(model).to("cuda")
    x, y = torch.randn(5, 4), torch.randint(0, 2, (5,))
    losses = []
    for net, place in ((model, "cpu"), (twin, "cuda")):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x.to(place)), y.to(place))
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert other.is_cuda
        assert torch.allclose(one, other.cpu(), atol=1e-5)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimizers_step_on_the_device(name):
    results = []
    for place in ("cpu", "cuda"):
        w = torch.linspace(-1, 1, 6).to(place).requires_grad_()
        optimizer = getattr(torch.optim, name)([w], lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        results.append(w.detach().cpu())
    assert torch.allclose(*results, atol=1e-6)


def test_memory_is_counted_and_given_back(there):
    if not hasattr(there.cupy, "get_default_memory_pool"):
        pytest.skip("the stand-in has no pool")
    before = torch.cuda.memory_allocated()
    x = torch.zeros(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() - before >= 4 << 20
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    del x
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()


def test_graphs_are_freed_with_their_device_memory(there):
    import gc
    import weakref

    gc.disable()
    try:
        x = torch.ones(4, device="cuda", requires_grad=True)
        y = (x * x).exp().sum()
        node = weakref.ref(y.grad_fn)
        y.backward()
        del y
        assert node() is None
    finally:
        gc.enable()


def test_large_tensors_of_a_device_ask_for_no_machine_code_of_the_host():
    from pullback.operators.arrays import native

    functional = torch.nn.functional
    native.forget()
    x = torch.randn(8, 8, 32, 32, device="cuda", requires_grad=True)
    rows = functional.max_pool2d(x, 2).reshape(64, -1)
    mixed = functional.gelu(rows @ rows.t()).softmax(-1)
    out = mixed.sum() + functional.layer_norm(rows, rows.shape[1:]).sigmoid().sum()
    torch.autograd.grad(out, x)
    assert not native._kernels


@pytest.mark.parametrize("width", [1, 8, 64, 300])
@pytest.mark.parametrize("count", [10, 100, 5000])
def test_rows_that_are_named_several_times_get_all_of_their_gradients(count, width):
    """G-1: wide rows and many places took another way, which a device does not have."""
    torch.manual_seed(0)
    table, index = torch.randn(1000, width), torch.randint(0, 1000, (count,))
    index[: count // 2] = index[0]
    found = []
    for place in ("cpu", "cuda"):
        rows = table.clone().to(place).requires_grad_()
        given = index.to(place)
        taken = torch.nn.functional.embedding(given, rows).square().sum() + rows[given].sum()
        added = torch.zeros(1000, width, device=place).index_add(0, given, rows[given])
        (taken + (added * added).sum()).backward()
        found.append(rows.grad.cpu())
    assert torch.allclose(found[1], found[0], rtol=1e-4, atol=1e-2)
