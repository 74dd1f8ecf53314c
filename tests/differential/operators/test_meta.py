"""The same programs on tensors without data, on torch and here: what they print or raise."""

import copy

import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for

torch = pytest.importorskip("torch")

PROGRAMS = """
m.empty(2, 3, device="meta", requires_grad=True)
m.ones(2, dtype=m.int64, device="meta")
m.empty((), device="meta")
m.empty_strided((2, 3), (1, 2), device="meta").stride()
m.tensor([1, 2], device="meta")
m.full((2,), 3, device="meta")
m.randint(5, (2,), device="meta")
m.zeros_like(m.ones(2), device="meta")
m.zeros_like(x, device="cpu")
m.rand_like(x)
m.nn.Parameter(m.empty(2, device="meta"))
x.item()
x[0, 0].item()
x.numpy()
x.tolist()
bool(x[0, 0])
x.cpu()
x.to("cpu")
m.ones(2, 3).copy_(x)
x.copy_(m.ones(3))
x + m.ones(2, 3)
m.ones(2, 3) + x
x + m.tensor(1.0)
m.cat([x, m.ones(2, 3)])
x.nonzero()
x[x > 0]
x.unique()
m.equal(x, x)
x.to("meta") is x
x.new_zeros(3)
m.where(x > 0, x, 0.0)
x.t().contiguous().stride()
(x.t() + 1).stride()
x.untyped_storage().nbytes()
x.data_ptr()
m.mm(x, x.t())
(x @ m.empty(4, 3, 5, device="meta")).stride()
x.normal_().zero_().fill_(3).add_(1).mul_(x)
x.sum(0)
x.sum()
x.max(1)
x.softmax(-1)
x.reshape(3, 2).stride()
x[:, 1].stride()
x[1].storage_offset()
x.expand(4, 2, 3).stride()
x.double()
x > 1
x.sort()
copy.deepcopy(x)
x.is_cpu, x.is_meta, x.device, x.get_device()
m.empty(2, device="meta:0").device
x.index_select(0, m.tensor([0]))
m.stack([x, x]).shape
list(x)
m.nn.functional.linear(x, m.empty(5, 3, device="meta"), m.empty(5, device="meta"))
m.nn.functional.conv2d(m.empty(1, 3, 8, 8, device="meta"), m.empty(4, 3, 3, 3, device="meta"))
m.nn.functional.layer_norm(x, (3,))
m.einsum("ij,kj->ik", x, x)
m.empty(10**5, 10**5, device="meta").mm(m.empty(10**5, 10**5, device="meta")).shape
m.empty(10**6, 10**6, device="meta").exp().numel()
m.autograd.grad((x.requires_grad_() * x).sum(), x)
m.func.grad(lambda v: v.sin().sum())(m.empty(3, device="meta"))
m.func.vmap(m.sin)(m.empty(2, 3, device="meta"))
m.dropout(m.empty(3, device="meta"), 0.5, True)
m.linalg.inv(m.empty(3, 3, device="meta"))
m.device("meta")
"""


def outcome(module, program):
    x = module.empty(2, 3, device="meta")
    try:
        return repr(eval(program, {"m": module, "x": x, "copy": copy}))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("program", PROGRAMS.strip().splitlines())
def test_program_on_meta_gives_the_same(program):
    assert outcome(pullback, program) == outcome(torch, program)


MIXED = {
    "mm": lambda t, a, b: t.mm(a, b),
    "matmul": lambda t, a, b: a @ b,
    "mv": lambda t, a, b: t.mv(a, b[0]),
    "dot": lambda t, a, b: t.dot(a[0], b[0]),
    "vdot": lambda t, a, b: t.vdot(a[0], b[0]),
    "einsum": lambda t, a, b: t.einsum("ij,jk->ik", a, b),
    "tensordot": lambda t, a, b: t.tensordot(a, b, 1),
    "addmm": lambda t, a, b: t.addmm(a, a, b),
    "cat": lambda t, a, b: t.cat([a, b]),
    "stack": lambda t, a, b: t.stack([a, b]),
    "where": lambda t, a, b: t.where(a > 0, a, b),
    "linear": lambda t, a, b: t.nn.functional.linear(a, b),
    "bilinear": lambda t, a, b: t.nn.functional.bilinear(a, a, b[None]),
    "conv1d": lambda t, a, b: t.nn.functional.conv1d(a[None], b[..., None]),
    "conv_transpose1d": lambda t, a, b: t.nn.functional.conv_transpose1d(a[None], b[..., None]),
}
REFUSED_BY_TORCH = ("mv", "dot", "vdot", "cat", "stack", "where")


@pytest.mark.parametrize("name", MIXED)
def test_what_has_data_is_not_mixed_with_what_has_none(name):
    """Torch refuses some of these, and gives others for zeros: here all say so."""
    data = pullback.ones(2, 2)
    for pair in ((data, data.to("meta")), (data.to("meta"), data)):
        for enabled in (True, False):
            with (
                pullback.set_grad_enabled(enabled),
                pytest.raises(RuntimeError, match=r"'cpu'.*'meta'"),
            ):
                MIXED[name](pullback, *pair)
    if name in REFUSED_BY_TORCH:
        with pytest.raises(RuntimeError):
            MIXED[name](torch, torch.ones(2, 2), torch.ones(2, 2, device="meta"))


# Every operator on its samples --------------------------------------------------------------------

# In evaluation the statistics that it returns beside are empty on a CPU; torch's meta says not.
OTHER_SHAPES = {"native_batch_norm"}


def _without_data(module, value):
    """The same arguments for a library, their tensors on device "meta"."""
    if isinstance(value, pullback.Tensor):
        array = value.detach().numpy()
        return module.empty_strided(
            array.shape,
            tuple(stride // array.itemsize for stride in array.strides),
            dtype=getattr(module, str(value.dtype).removeprefix("torch.")),
            device="meta",
        )
    if isinstance(value, pullback.dtype):
        return getattr(module, str(value).removeprefix("torch."))
    if type(value) in (list, tuple):
        return type(value)(_without_data(module, one) for one in value)
    if isinstance(value, dict):
        return {name: _without_data(module, one) for name, one in value.items()}
    return value


def _described(made):
    if hasattr(made, "stride"):
        return tuple(made.shape), str(made.dtype), made.device.type
    return tuple(map(_described, made)) if isinstance(made, (list, tuple)) else type(made)


def _shapes(module, name, sample):
    """What a call gives; None where it is refused."""
    args = (sample.args if sample.input is None else (sample.input, *sample.args), sample.kwargs)
    try:
        args, kwargs = _without_data(module, args)
        return _described(resolve(module, name)(*args, **kwargs))
    except (RuntimeError, ValueError, TypeError, IndexError):
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in SAMPLES if resolve(torch, name) is not None])
def test_operators_give_torchs_shapes_dtypes_and_device_without_data(name):
    if name in OTHER_SHAPES or resolve(pullback, name) is None:
        pytest.skip("not to be compared")
    for sample in samples_for(name, pullback.float32):
        expected = _shapes(torch, name, sample)
        if expected is not None:
            assert _shapes(pullback, name, sample) == expected, sample
