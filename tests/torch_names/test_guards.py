"""Names that libraries import from torch's private modules."""

import pytest
from pullback._guards import TracingContext, detect_fake_mode, tracing
from pullback._ops import OpOverload, OpOverloadPacket
from pullback._subclasses.fake_tensor import FakeTensorMode

import pullback as torch


def test_the_mode_without_data_is_found():
    mode = FakeTensorMode()
    fake = mode.from_tensor(torch.ones(2))
    assert detect_fake_mode({"a": [fake, 1]}) is mode
    assert detect_fake_mode(torch.ones(2)) is None
    with mode:
        assert detect_fake_mode() is mode
    with tracing(TracingContext(mode)):
        assert detect_fake_mode() is mode
    with pytest.raises(AssertionError, match="two modes"):
        detect_fake_mode([fake, FakeTensorMode().from_tensor(torch.ones(2))])


def test_a_tracing_context_is_there_inside_alone():
    assert TracingContext.try_get() is None
    with pytest.raises(RuntimeError, match="tracing"):
        TracingContext.get()
    with tracing(TracingContext(None)) as context:
        assert TracingContext.get() is context


def test_overloads_are_of_the_classes_that_programs_ask_for():
    assert isinstance(torch.ops.aten.add.Tensor, OpOverload)
    assert isinstance(torch.ops.aten.add, OpOverloadPacket)
