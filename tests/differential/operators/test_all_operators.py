"""Every operator on all its samples, against torch: values, dtypes, history, gradients, writes.

The samples are one table, made into tensors of either library. Where torch has a defect of its own,
`DEFECTS` says so.
"""

import contextlib

import numpy
import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from pullback.testing.coverage import supports

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:index_reduce:UserWarning"),  # "is in beta"
    pytest.mark.filterwarnings("ignore:.*in favor of torch.linalg:UserWarning"),
    pytest.mark.filterwarnings("ignore:A window was not provided:UserWarning"),
]

NAMES = [name for name in SAMPLES if resolve(pullback, name) is not None]
COMPLEX = [name for name in NAMES if supports(name, "complex")]
DTYPES = [pytest.param(name, pullback.float64, id=f"{name}-float64") for name in NAMES]
DTYPES += [pytest.param(name, pullback.complex128, id=f"{name}-complex128") for name in COMPLEX]
DIFFERENTIABLE = [case for case in DTYPES if supports(case.values[0], "grad")]

in_both_dtypes = pytest.mark.parametrize(("name", "dtype"), DTYPES)


def at_kinks(sample):
    return not sample.smooth


def everywhere(sample):
    return True


def nowhere(sample):
    return False


# (operator, order of the derivative or "in place") -> samples on which torch 2.13 is wrong.
DEFECTS = {
    # The gradient of the bias does not know that it depends on the output's gradient.
    ("nn.functional.layer_norm", 2): lambda sample: set(sample.kwargs) == {"bias"},
    # The gradient of the input is kept where the scattered part replaced it, and dropped elsewhere.
    ("as_strided_scatter", 1): everywhere,
    # Gradients arrive in the triangle that is never read.
    **{(f"cholesky_{name}", 1): everywhere for name in ("solve", "inverse")},
    # The fused kernel that torch chooses has no second derivative.
    ("nn.functional.scaled_dot_product_attention", 2): everywhere,
    ("nn.functional.multi_head_attention_forward", 2): everywhere,
    # The target is resized to the broadcast shape, which no other in-place form does.
    ("addbmm", "in place"): lambda sample: sample.input.ndim < 2,
    # The target keeps the history that it had before it was overwritten.
    **{(f"logical_{name}", "in place"): everywhere for name in ("not", "and", "or", "xor")},
    # Not implemented.
    **{(f"a{name}h", "in place"): everywhere for name in ("cos", "sin", "tan")},
    **{(f"arc{name}h", "in place"): everywhere for name in ("cos", "sin", "tan")},
    # A number where the function has none, at a pole or at NaN; NaN where it has a limit.
    ("digamma", 1): at_kinks,
    ("digamma", "in place"): at_kinks,
    ("special.i1", 1): at_kinks,
    ("special.i1e", 1): at_kinks,
    ("special.log_ndtr", 1): at_kinks,
    # At -0.0 the sign of the infinite slope depends on the processor's vector instructions.
    ("logit", 1): at_kinks,
    ("logit", "in place"): at_kinks,
}

DOUBLE = {"rtol": 1e-9, "atol": 1e-11}
SINGLE = {"rtol": 2e-6, "atol": 1e-7}
# torch computes these in single precision, or by shorter series.
LOOSE = {
    "nn.functional.hardsigmoid": {"rtol": 1e-7},
    "special.bessel_j0": {"rtol": 1e-5},
    "special.bessel_j1": {"rtol": 1e-5},
    "special.bessel_y0": {"rtol": 1e-5},
    "special.bessel_y1": {"rtol": 1e-5},
}

# Why the last node has another name -> operator: our node and torch's, on some samples at least,
# both without "Backward". Everything else must agree.
OTHER_NODES = {
    "one product here, views around a product in torch": """
        matmul: UnsafeView0/Squeeze4 UnsafeView0/Clone0
        nn.functional.linear: Addmm0/View0 Addmm0/Dot0
        nn.functional.multi_head_attention_forward: Addmm0/View0
    """,
    "the steps are the same but for the last, which gives the result its shape": """
        linalg.matrix_norm: View0/Permute0
        linalg.cond: Div0/Squeeze1
        stft: Select0/Squeeze4 Transpose0/Transpose1
        istft: Select0/Squeeze1
    """,
    "other steps lead to the same": """
        nn.functional.multilabel_soft_margin_loss: Mean1/Div0
        nn.functional.cross_entropy: Div0/Div1 Sum0/Neg0
    """,
    "one operator over lines here, a squeezed one over images in torch": """
        nn.functional.max_pool1d: MaxPool1DWithIndices0/Squeeze1
        nn.functional.avg_pool1d: AvgPool1D0/Squeeze1
        nn.functional.adaptive_avg_pool1d: AdaptiveAvgPool1D0/Squeeze1 Mean1/Squeeze1
        nn.functional.adaptive_max_pool1d: AdaptiveMaxPool1D0/Squeeze1
        nn.functional.max_unpool1d: MaxUnpool1D0/Squeeze1
        nn.functional.interpolate: AdaptiveAvgPool1D0/Squeeze1
    """,
    "one operator here, several in torch": """
        nn.functional.rms_norm: NativeLayerNorm0/Mul0 NativeLayerNorm0/Clone0
        rms_norm: NativeLayerNorm0/Mul0 NativeLayerNorm0/Clone0
        nn.functional.instance_norm: NativeLayerNorm0/View0
    """,
    "torch pads around by writing into slices": """
        nn.functional.pad: CircularPad1D0/CopySlices CircularPad2D0/CopySlices
    """,
    "torch adds the bias of complex numbers, and of empty batches, in a step of its own": """
        nn.functional.conv1d: Convolution0/Add0
        nn.functional.conv2d: Convolution0/Add0
        nn.functional.conv3d: Convolution0/Add0
        nn.functional.conv_transpose1d: Convolution0/Add0
        nn.functional.conv_transpose2d: Convolution0/Add0
        nn.functional.conv_transpose3d: Convolution0/Add0
        conv1d: Convolution0/Add0
        conv2d: Convolution0/Add0
        conv3d: Convolution0/Add0
        conv_transpose1d: Convolution0/Add0
        conv_transpose2d: Convolution0/Add0
        conv_transpose3d: Convolution0/Add0
    """,
    "torch has a kernel for real input, or conjugates afterwards": """
        fft.fft: FftC2C0/FftR2C0
        fft.ifft: FftC2C0/Conj0
        fft.ihfft2: Conj0/FftC2C0
        fft.ihfftn: Conj0/FftC2C0
    """,
    "torch chooses among fused kernels": """
        nn.functional.scaled_dot_product_attention:
            UnsafeView0/ScaledDotProductFlashAttentionForCpu0
    """,
    "torch has no derivative of it": """
        linalg.ldl_factor: LinalgLdlFactorEx0/NotImplemented
        linalg.ldl_factor_ex: LinalgLdlFactorEx0/NotImplemented
    """,
    "the second result has its history from the first one's node in torch": """
        triangular_solve: Clone0/TriangularSolve0
        linalg.lstsq: Slice0/LinalgLstsq0 Select0/LinalgLstsq0
        native_group_norm: View0/NativeGroupNorm0
    """,
    "torch numbers the overloads for numbers and tensors, which are one operator here": """
        round: Round0/Round1
        rsub: Rsub1/Rsub0
        div: Div0/Div2
        divide: Div0/Div2
        remainder: Remainder0/Remainder1
        fmod: Fmod0/Fmod1
        copysign: Copysign0/Copysign1
        xlogy: Xlogy0/Xlogy2
        special.ndtr: Mul0/Mul1
        special.xlog1py: SpecialXlog1Py0/SpecialXlog1Py2
        masked_fill: MaskedFill0/MaskedFill1
    """,
}


def _listed(table):
    """Operator -> the pairs of nodes that a table of names, each with a colon, and pairs names."""
    found = {}
    for word in " ".join(table.values()).split():
        if word.endswith(":"):
            pairs = found.setdefault(word[:-1], set())
        else:
            pairs.add(word)
    return found


OTHERWISE = _listed(OTHER_NODES)
# Other outputs carry the history, or another output number: copies of several views are nodes of
# their own here; statistics and residuals come from steps of their own.
OTHER_HISTORY = """
    linalg.lstsq triangular_solve native_group_norm split_with_sizes_copy unbind_copy
"""


@contextlib.contextmanager
def naming(sample):
    """Say in a failure which sample it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"on {sample!r}")
        raise


def pairs(name, dtype, **options):
    """Each sample as tensors of both libraries."""
    ours = samples_for(name, dtype, **options)
    theirs = samples_for(name, dtype, module=torch, **options)
    for one, other in zip(ours, theirs, strict=True):
        with naming(one):
            yield one, other


def both(name):
    return resolve(pullback, name), resolve(torch, name)


def array_of(tensor):
    if isinstance(tensor, pullback.Tensor):
        return tensor._array
    return tensor.numpy(force=True)


def assert_alike(ours, theirs, name, *, zeros_for_none=False):
    """Equal shapes and dtypes, values equal but for the last digits; NaN equals NaN."""
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if zeros_for_none and (a is None or b is None):
            known = a if b is None else b
            assert known is None or not array_of(known).any()
            continue
        assert (a is None) == (b is None), (a, b)
        if a is not None:
            assert tuple(a.shape) == tuple(b.shape)
            assert str(a.dtype) == str(b.dtype)
            tolerances = SINGLE if array_of(b).dtype in ("float32", "complex64") else DOUBLE
            tolerances = LOOSE.get(name, tolerances)
            numpy.testing.assert_allclose(array_of(a), array_of(b), **tolerances)


def weights_like(tensor, seed):
    random = numpy.random.default_rng(seed)
    values = random.normal(size=tuple(tensor.shape))
    if tensor.dtype.is_complex:
        values = values + 1j * random.normal(size=tuple(tensor.shape))
    module = pullback if isinstance(tensor, pullback.Tensor) else torch
    dtype = str(tensor.dtype).removeprefix("torch.")
    return module.from_numpy(numpy.asarray(values).astype(dtype))


def gradients(outputs, inputs, **options):
    """Gradients for weighted outputs; Nones where nothing has history."""
    roots = [out for out in outputs if out is not None and out.requires_grad]
    if not roots or not inputs:
        return [None] * len(inputs)
    module = pullback if isinstance(roots[0], pullback.Tensor) else torch
    weights = [weights_like(out, number) for number, out in enumerate(roots)]
    return list(module.autograd.grad(roots, inputs, weights, allow_unused=True, **options))


@in_both_dtypes
def test_values_dtypes_and_history_are_torchs(name, dtype):
    if name == "geqrf" and "complex" in str(dtype):
        pytest.skip("torch refuses complex matrices that require grad")
    function, reference = both(name)
    for one, other in pairs(name, dtype):
        ours, theirs = one.call(function), other.call(reference)
        if not list(tensors_in(theirs)):
            assert ours == theirs
            continue
        ours, theirs = list(tensors_in(ours)), list(tensors_in(theirs))
        assert_alike(ours, theirs, name)
        for a, b in zip(ours, theirs, strict=True):
            if name not in OTHER_HISTORY.split():
                assert a.requires_grad == b.requires_grad
                assert a.output_nr == b.output_nr


def kind_of_node(tensor):
    """The node's name without the number, by which torch tells overloads apart."""
    return type(tensor.grad_fn).__name__.rstrip("0123456789")


def shown_node(tensor):
    return type(tensor.grad_fn).__name__.replace("Backward", "")


def node_pairs(name, dtype):
    """Our node and torch's, "/" between them, for each result of each sample."""
    function, reference = both(name)
    for one, other in pairs(name, dtype):
        ours, theirs = list(tensors_in(one.call(function))), list(tensors_in(other.call(reference)))
        for a, b in zip(ours, theirs, strict=True):
            yield shown_node(a), shown_node(b)


@in_both_dtypes
def test_nodes_have_torchs_names(name, dtype):
    if name == "geqrf" and "complex" in str(dtype):
        pytest.skip("torch refuses complex matrices that require grad")
    for ours, theirs in node_pairs(name, dtype):
        assert ours == theirs or f"{ours}/{theirs}" in OTHERWISE.get(name, ())


@pytest.mark.parametrize("name", OTHERWISE)
def test_nodes_listed_as_others_still_are(name):
    dtypes = [pullback.float64, *([pullback.complex128] if name in COMPLEX else [])]
    found = {"/".join(pair) for dtype in dtypes for pair in node_pairs(name, dtype)}
    assert found >= OTHERWISE[name]


def offset(tensor):
    """Where a tensor starts in its memory; in bytes, since a view may change the dtype."""
    return tensor.storage_offset() * tensor.element_size()


@in_both_dtypes
def test_views_are_torchs_views(name, dtype):
    if not supports(name, "view"):
        pytest.skip("makes no views")
    function, reference = both(name)
    for one, other in pairs(name, dtype):
        ours, theirs = list(tensors_in(one.call(function))), list(tensors_in(other.call(reference)))
        for a, b in zip(ours, theirs, strict=True):
            if b.is_conj():
                continue  # torch conjugates when the value is read, we at once
            assert a._is_view() == b._is_view()
            if b._is_view() and b.numel():
                assert offset(a) - offset(a._base) == offset(b) - offset(b._base)
                sides = zip(a.stride(), b.stride(), b.shape, strict=True)
                assert all(x == y for x, y, size in sides if size > 1)


@pytest.mark.parametrize(("name", "dtype"), DIFFERENTIABLE)
def test_gradients_are_torchs(name, dtype):
    function, reference = both(name)
    defective = DEFECTS.get((name, 1), nowhere)
    for one, other in pairs(name, dtype):
        if defective(one):
            continue
        assert_alike(
            gradients(list(tensors_in(one.call(function))), one.differentiable),
            gradients(list(tensors_in(other.call(reference))), other.differentiable),
            name,
        )


@pytest.mark.parametrize(("name", "dtype"), DIFFERENTIABLE)
def test_second_gradients_are_torchs(name, dtype):
    if not supports(name, "gradgrad"):
        pytest.skip("has no second derivative")
    function, reference = both(name)
    defective = DEFECTS.get((name, 2), nowhere)
    for one, other in pairs(name, dtype):
        if not one.smooth or defective(one):
            continue
        first = gradients(
            list(tensors_in(one.call(function))), one.differentiable, create_graph=True
        )
        expected = gradients(
            list(tensors_in(other.call(reference))), other.differentiable, create_graph=True
        )
        assert_alike(
            gradients(first, one.differentiable),
            gradients(expected, other.differentiable),
            name,
            zeros_for_none=True,
        )


@in_both_dtypes
def test_inplace_forms_are_torchs(name, dtype):
    write = getattr(torch.Tensor, f"{name}_", None)
    if write is None:
        pytest.skip("has no in-place form")
    assert hasattr(pullback.Tensor, f"{name}_")
    defective = DEFECTS.get((name, "in place"), nowhere)
    for one, other in pairs(name, dtype):
        if not isinstance(one.input, pullback.Tensor) or defective(one):
            continue
        ours, theirs = one.input.clone(), other.input.clone()
        try:
            write(theirs, *other.args, **other.kwargs)
        except RuntimeError:  # NotImplementedError is one, and says no more to a user
            with pytest.raises(RuntimeError):
                getattr(ours, f"{name}_")(*one.args, **one.kwargs)
            continue
        assert getattr(ours, f"{name}_")(*one.args, **one.kwargs) is ours
        assert_alike([ours], [theirs], name)
        assert ours.requires_grad == theirs.requires_grad
        assert kind_of_node(ours) == kind_of_node(theirs)
        if supports(name, "grad"):
            assert_alike(
                gradients([ours], one.differentiable),
                gradients([theirs], other.differentiable),
                name,
            )
