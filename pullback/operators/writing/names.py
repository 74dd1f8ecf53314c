"""What written code of every sort calls by name: whatever this module imports."""
# ruff: noqa: F401 (the names are for the written code)

from __future__ import annotations

from typing import Any

import numpy
from numpy import array, float32, ndarray

from pullback.core.arrays import F32, F64, LOOSE, SCALARS, numbers, numbers32, numbers64
from pullback.core.arrays import as_array as asarray
from pullback.core.explain.birth import Ended
from pullback.core.explain.birth import make_birth as born
from pullback.core.explain.cause import CONSTANTS, adopt, ended, ended_at, inherited
from pullback.core.mode import Hooked, fast, get_mode
from pullback.core.node import Leaf, Output
from pullback.core.origin import caller, getframe, internal, last_user
from pullback.core.overriding import BAIL_OUTS
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, blanks, new
from pullback.core.version import INFERENCE_CELL, UNWRITTEN, shorten
from pullback.core.view import NOWHERE, USUAL, CreationMeta, View, attach, edge_of
from pullback.operators.arrays.gaps import FEW, write_few
from pullback.operators.arrays.large import LARGE, large

F16 = numpy.dtype(numpy.float16)
NO_GRAD_VIEW = CreationMeta.NO_GRAD_MODE
INFERENCE_VIEW = CreationMeta.INFERENCE_MODE
MULTI_OUTPUT = CreationMeta.MULTI_OUTPUT_NODE
SPECIAL = (Leaf, View)
host_array = ndarray  # whatever `ndarray` is where lines are written for a device

COMMON: dict[str, Any] = {name: one for name, one in globals().items() if name[0] != "_"}
