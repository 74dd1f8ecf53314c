"""Batch norms that become a part of the layer before: refusals."""

import pytest

import pullback as torch
from pullback.nn.utils import fuse_conv_bn_weights, fuse_linear_bn_weights


@pytest.mark.parametrize(
    ("fuse", "shape"), [(fuse_linear_bn_weights, (3, 2)), (fuse_conv_bn_weights, (3, 2, 1, 1))]
)
def test_statistics_that_are_no_tensors_are_refused_by_a_type_error(fuse, shape):
    weight, ones = torch.ones(shape), torch.ones(3)
    with pytest.raises(TypeError):
        fuse(weight, None, ones, "4", "5", ones, ones)
