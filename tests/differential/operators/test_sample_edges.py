"""Every operator on samples brought to an edge: 0-d, empty, indices that repeat; as in torch.

The samples are those of the table with all tensors of a call changed alike. Both answer with equal
values and gradients, or both refuse; `OTHERWISE` says why where it is otherwise.
"""

import itertools

import numpy
import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from pullback.testing.coverage import supports
from pullback.testing.edges import edges_of

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

# Works out to something on one side alone, on purpose or by a fault of torch's.
MORE_HERE = """
    fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft
    fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.hfft2 fft.ihfft2
    index_put linalg.tensorinv addmv nn.functional.batch_norm
    nn.functional.multilabel_soft_margin_loss nn.functional.embedding_bag
    pixel_shuffle pixel_unshuffle nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
"""
LEFT_OUT = {
    "a library of torch's refuses nothing to transform, or its rule reshapes nothing": MORE_HERE,
    "torch reads memory that was never written": """
        nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
    """,
    "torch's process ends in a segmentation fault": "native_batch_norm nn.functional.pdist",
    "the gradient is one without memory, which torch cannot show": "sgn",
    "shorter series there": """
        special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
    """,
    "torch's gradient is wrong": "as_strided_scatter cholesky_solve cholesky_inverse",
    "refused here, since images without elements have no mean": """
        nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
        nn.functional.adaptive_avg_pool3d
    """,
    "refused here: no channels, no square, masks that do not fit": """
        nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d
        nn.functional.dropout2d nn.functional.dropout3d cholesky linalg.tensorsolve geqrf
        nn.functional.scaled_dot_product_attention nn.functional.multi_head_attention_forward
    """,
    "drawn at random, in another order for other sizes": "nn.functional.dropout",
    "torch has no gradient for p=0 of numbers": "dist",
}
OTHERWISE = {name: why for why, names in LEFT_OUT.items() for name in names.split()}

NAMES = [
    name
    for name in SAMPLES
    if resolve(pullback, name) is not None and resolve(torch, name) is not None
]
CASES = [(name, "float64") for name in NAMES]
CASES += [(name, "complex128") for name in NAMES if supports(name, "complex")]


def numbers(library, tensor):
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = tensor.resolve_conj()
    return tensor.resolve_neg().numpy()


_REFUSALS = (
    *(RuntimeError, ValueError, TypeError, IndexError, AssertionError),
    ZeroDivisionError,  # of a 0th root, which Python is asked for
)


def outcome(library, name, sample):
    """Values, then gradients; or the words of the refusal."""
    library.manual_seed(0)
    try:
        made = sample.call(resolve(library, name))
    except _REFUSALS as error:
        return f"refused: {error}"
    outputs = list(tensors_in(made))
    found = [numbers(library, one) for one in outputs]
    recorded = [one for one in outputs if one.requires_grad]
    inputs = sample.differentiable
    if not recorded or not inputs:
        return found
    try:
        grads = library.autograd.grad(
            recorded, inputs, [library.ones_like(one) for one in recorded], allow_unused=True
        )
    except (RuntimeError, NotImplementedError) as error:
        return [*found, f"no gradient: {error}"]
    shown = zip(grads, inputs, strict=True)
    return found + [numbers(library, library.zeros_like(x) if g is None else g) for g, x in shown]


def assert_same(ours, theirs, what):
    if isinstance(ours, str) or isinstance(theirs, str):
        assert isinstance(ours, str), f"{what}: torch says {theirs}"
        assert isinstance(theirs, str), f"{what}: {ours}"
        return
    more = ours[len(theirs) :] + theirs[len(ours) :]  # a history on one side alone, of zeros
    assert not any(isinstance(one, str) or one.any() for one in more), what
    for one, other in zip(ours, theirs, strict=False):
        if isinstance(one, str) or isinstance(other, str):
            assert isinstance(one, str) == isinstance(other, str), (what, one, other)
            continue
        assert one.dtype == other.dtype, what
        single = one.dtype.itemsize == 4
        bounds = {"rtol": 1e-5, "atol": 1e-7} if single else {"rtol": 1e-6, "atol": 1e-9}
        numpy.testing.assert_allclose(one, other, **bounds, err_msg=what, strict=True)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_at_its_edges_an_operator_does_what_torch_does(name, dtype):
    if name in OTHERWISE:
        pytest.skip(OTHERWISE[name])
    ours = samples_for(name, getattr(pullback, dtype))
    theirs = samples_for(name, getattr(pullback, dtype), module=torch)
    for one, other in itertools.islice(zip(ours, theirs, strict=True), 3):
        for (edge, here), (_, there) in zip(edges_of(one), edges_of(other), strict=True):
            what = f"{edge}: {here!r}"
            assert_same(outcome(pullback, name, here), outcome(torch, name, there), what)


def test_what_is_left_out_is_in_the_table_and_has_a_reason():
    assert set(OTHERWISE) <= set(SAMPLES)
    assert len(OTHERWISE) < 50
    assert all(reason for reason in LEFT_OUT)
