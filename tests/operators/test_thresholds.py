"""Kernels give what operators mean, on the samples of all operators and on these at their edges.

The sizes at which kernels for larger arrays take over are brought down, so that the few elements of
a sample are many. Kernels that are declared with a condition are not reached so: test_kernels.py
tries them. Against them stand the declared forwards without any kernel.

For each operator there are samples of each sort: 0-d, complex 0-d, empty, with repeated indices.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from pullback.testing.coverage import supports

sys.path.insert(0, str(Path(__file__).parent))
import lowered

sys.path.pop(0)

# Numbers that are compared with and choose no kernel -> what they are.
OTHERS = {
    "limits of what there can be": "_MOST _MOST_PARTS _MOST_ROUNDS _FIRST_HIDDEN",
    "values of elements and options": """
        _FAR _FITS_ALL _LARGEST_FACTORIAL _LARGEST_PRODUCT _SAME_FROM
    """,
    "as many as the machine adds at once": "_LANES",
    "the least share of a thread, which test_mkl.py goes around": "_PIECE",
    "up to which products are machine code; test_mkl.py tries both sides": "MOST",
}

# Sort -> operators for which all samples of it are refused, by reason.
REFUSED = {
    "0-d": {
        "no derivative, of which the samples ask": """
            floor_divide heaviside
        """,
        "of windows, of images or with channels": """
            channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
            conv_transpose3d grid_sampler_2d grid_sampler_3d group_norm native_group_norm
            nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
            nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d
            nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d
            nn.functional.affine_grid nn.functional.avg_pool1d nn.functional.avg_pool2d
            nn.functional.avg_pool3d nn.functional.batch_norm nn.functional.channel_shuffle
            nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
            nn.functional.conv_transpose1d nn.functional.conv_transpose2d
            nn.functional.conv_transpose3d nn.functional.dropout2d nn.functional.dropout3d
            nn.functional.embedding_bag nn.functional.fold
            nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
            nn.functional.grid_sample nn.functional.group_norm nn.functional.instance_norm
            nn.functional.interpolate nn.functional.local_response_norm
            nn.functional.lp_pool1d nn.functional.lp_pool2d nn.functional.lp_pool3d
            nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d
            nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d
            nn.functional.multi_head_attention_forward nn.functional.pixel_shuffle
            nn.functional.pixel_unshuffle nn.functional.scaled_dot_product_attention
            nn.functional.unfold pixel_shuffle pixel_unshuffle stft istft
        """,
        "of transforms along dimensions": """
            fft.fft fft.fft2 fft.fftshift fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2
            fft.ifftshift fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn
            fft.rfft fft.rfft2 fft.rfftn
        """,
        "of classes or pairs": """
            bincount cdist histogramdd nn.functional.cosine_embedding_loss
            nn.functional.cross_entropy nn.functional.ctc_loss nn.functional.glu
            nn.functional.linear_cross_entropy nn.functional.multilabel_margin_loss
            nn.functional.nll_loss nn.functional.pdist segment_reduce
        """,
        "of matrices": """
            cholesky cholesky_inverse cholesky_solve det diag diag_embed diagonal
            diagonal_copy diagonal_scatter geqrf inverse linalg.cholesky linalg.cholesky_ex
            linalg.cond linalg.cross linalg.det linalg.diagonal linalg.eigvals
            linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex
            linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.lstsq linalg.lu
            linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matmul
            linalg.matrix_exp linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
            linalg.multi_dot linalg.pinv linalg.qr linalg.slogdet linalg.solve
            linalg.solve_ex linalg.solve_triangular linalg.svdvals logdet lu lu_solve
            lu_unpack matrix_exp matrix_power orgqr ormqr pinverse qr renorm rot90 slogdet
            trace triangular_solve tril triu
        """,
        "of products of vectors and matrices": """
            Tensor.__rmatmul__ bmm cartesian_prod combinations cross dot einsum ger matmul
            mm mv nn.functional.bilinear nn.functional.linear outer vdot
        """,
        "of parts along a dimension": """
            Tensor.unfold unfold_copy Tensor.__getitem__ cat chunk concat concatenate
            cumulative_trapezoid diff dsplit
            fliplr flipud hsplit narrow narrow_copy select select_scatter slice_scatter
            split split_with_sizes split_with_sizes_copy take_along_dim tensor_split
            trapezoid trapz unbind unbind_copy unflatten unsafe_chunk unsafe_split
            view_as_complex vsplit
        """,
        "over the last dimensions": """
            layer_norm native_layer_norm nn.functional.layer_norm nn.functional.rms_norm
            rms_norm
        """,
    },
    "empty": {
        "no derivative, of which the samples ask": """
            floor_divide heaviside
        """,
        "of windows, or with channels": """
            conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d istft
            native_group_norm nn.functional.affine_grid nn.functional.conv1d
            nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
            nn.functional.conv_transpose2d nn.functional.conv_transpose3d
            nn.functional.ctc_loss stft
        """,
        "of the order of their largest element": """
            gradient nanquantile quantile
        """,
        "of a size that is given, which then differs": """
            as_strided as_strided_copy as_strided_scatter broadcast_to fft.fftn fft.hfftn
            fft.ifftn fft.ihfftn fft.irfftn fft.rfftn layer_norm linalg.tensorinv
            linalg.tensorsolve native_layer_norm rms_norm segment_reduce
        """,
        "of matrices whose sizes then differ": """
            addbmm addmm cholesky_inverse cholesky_solve einsum geqrf linalg.ldl_factor
            linalg.ldl_factor_ex linalg.lu_solve linalg.matrix_power linalg.solve
            linalg.solve_ex linalg.solve_triangular lu_solve matrix_power mm
            triangular_solve
        """,
    },
    "repeated": {"lengths that do not add up then": "segment_reduce"},
}

BOUNDS = {4: 4e-6, 8: 1e-13}  # of the largest number in an array, by bytes


def made(to, folder):
    file = folder / f"{to}.pickle"
    script = Path(lowered.__file__)
    subprocess.run([sys.executable, script, to, file], check=True, env=os.environ)
    return pickle.loads(file.read_bytes())


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return made("inline", tmp_path_factory.mktemp("inline"))


def differs(a, b):
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return a is not b and a != b
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    bound = BOUNDS.get(a.real.itemsize, 0)
    with numpy.errstate(all="ignore"):
        finite = a[numpy.isfinite(a)]
        scale = numpy.abs(finite).max(initial=1) if a.dtype.kind in "fc" else 0
        return not numpy.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=True)


@pytest.mark.parametrize("to", ["2", "7", "meaning"])
def test_kernels_for_many_elements_agree_with_those_for_few(to, usual, tmp_path):
    found = made(to, tmp_path)
    wrong = []
    for (name, dtype), expected in usual.items():
        both = zip(expected, found[name, dtype], strict=True)
        for number, ((edge, a), (_, b)) in enumerate(both):
            pairs = [(a, b)] if isinstance(a, str) or isinstance(b, str) else zip(a, b, strict=True)
            if any(differs(one, other) for one, other in pairs):
                wrong.append((name, dtype, number, edge))
    assert not wrong


def test_every_number_that_sizes_are_compared_with_is_brought_down():
    known = {name for names in OTHERS.values() for name in names.split()}
    for module, name in lowered.compared_numbers():
        _, attribute, number = lowered.place_of(module, name)
        if type(number) is int and number > 7 and not lowered.chooses(name):
            assert attribute in known, (module, name, number)


def test_every_operator_has_samples_of_every_sort_but_those_listed(usual):
    taken = {sort: set() for sort in REFUSED}
    tried, of_complex = {sort: set() for sort in REFUSED}, set()
    for (name, dtype), results in usual.items():
        for edge, made in results:
            sort = edge.partition(" ")[0]
            if edge:
                tried[sort].add(name)
            if edge and not isinstance(made, str):
                taken[sort].add(name)
                of_complex |= {name} if (sort, dtype) == ("0-d", "complex128") else set()
    for sort, reasons in REFUSED.items():
        listed = {name for names in reasons.values() for name in names.split()}
        assert tried[sort] - taken[sort] == listed, sort
    complex_too = {name for name in taken["0-d"] if supports(name, "complex")}
    # It has no gradient for complex numbers, and so no samples of them.
    assert complex_too - of_complex == {"nn.functional.silu"}
    assert len(tried["repeated"]) > 80
    assert len(of_complex) > 230
