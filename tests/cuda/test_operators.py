"""Every sampled operator on device arrays: the host's values and gradients."""

import contextlib

import pytest

import pullback as torch
from pullback.testing.on_device import NAMES, check, unasked_by_cupy
from tests.cuda import stand_in

# They look at values: to refuse them, or because sizes or the number of steps follow from them.
_LOOKING = """
    linalg.inv inverse linalg.solve linalg.solve_ex linalg.inv_ex linalg.solve_triangular
    triangular_solve linalg.cholesky linalg.cholesky_ex cholesky cholesky_solve cholesky_inverse
    linalg.qr qr linalg.householder_product orgqr ormqr linalg.lu linalg.lu_factor
    linalg.lu_factor_ex lu linalg.lu_solve lu_solve linalg.ldl_factor linalg.ldl_factor_ex
    linalg.ldl_solve linalg.svdvals linalg.eigvals linalg.lstsq matrix_power linalg.matrix_power
    linalg.matrix_exp matrix_exp linalg.cond linalg.tensorinv linalg.tensorsolve linalg.norm
    linalg.matrix_norm linalg.det linalg.slogdet logdet det slogdet
    nonzero nonzero_static argwhere where unique unique_consecutive bincount masked_select index_put
    repeat_interleave segment_reduce nn.functional.embedding nn.functional.embedding_bag
    allclose equal Tensor.__getitem__ masked_scatter nn.functional.one_hot histc histogram
    histogramdd istft nn.functional.gaussian_nll_loss nn.functional.ctc_loss special.airy_ai
    special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v
    special.chebyshev_polynomial_w special.shifted_chebyshev_polynomial_t
    special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v
    special.shifted_chebyshev_polynomial_w special.hermite_polynomial_h
    special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
"""
LOOKING = frozenset(_LOOKING.split())


class AskedError(Exception):
    """Values were brought to the host."""


@contextlib.contextmanager
def unasked():
    before = stand_in.transfers["to host"]
    yield
    if stand_in.transfers["to host"] != before:
        raise AskedError


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_agrees_with_the_host_and_asks_the_device_nothing(library, name):
    dtype = torch.complex128 if name == "istft" else torch.float64
    if library.cupy is stand_in.module:  # a few samples of each: all of them take half a minute
        outcome = check(name, dtype, most=3, unasked=unasked, asked_error=AskedError)
    else:
        import cupyx

        outcome = check(
            name,
            dtype,
            unasked=unasked_by_cupy,
            asked_error=cupyx.DeviceSynchronized,
        )
    assert not outcome.failures
    assert outcome.forward
    if name not in LOOKING:
        assert not outcome.waits


@pytest.mark.parametrize("name", ["mul", "sum", "matmul", "nn.functional.layer_norm", "softmax"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_other_dtypes_agree_too(library, name, dtype):
    outcome = check(name, getattr(torch, dtype), most=4)
    assert not outcome.failures


def test_pools_on_a_device_keep_channels_last(library):
    host = torch.arange(96.0).reshape(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    x = host.cuda()
    pools = torch.nn.functional.max_pool2d, torch.nn.functional.avg_pool2d
    for pool in pools:
        for given in (x, x.detach().requires_grad_()):
            made = pool(given, 2)
            assert made.is_contiguous(memory_format=torch.channels_last)
            assert made.tolist() == pool(host, 2).tolist()
