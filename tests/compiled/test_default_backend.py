"""The back end of functions that are compiled without naming one."""

import pytest

import pullback as torch
from pullback import compiler


@pytest.fixture(autouse=True)
def afresh():
    before = compiler.get_default_backend()
    yield
    compiler.set_default_backend(before)


def test_functions_compiled_from_then_on_have_it():
    graphs = []

    def noting(graph, inputs):
        graphs.append(graph)
        return graph.forward

    earlier = torch.compile(lambda x: x.sin())
    compiler.set_default_backend(noting)
    assert compiler.get_default_backend() is noting
    earlier(torch.ones(2))
    assert graphs == []
    assert torch.allclose(torch.compile(lambda x: x.cos())(torch.ones(2)), torch.ones(2).cos())
    assert len(graphs) == 1
    torch.compile(lambda x: x.exp(), backend="python")(torch.ones(2))
    assert len(graphs) == 1


def test_names_that_nobody_has_are_refused():
    with pytest.raises(RuntimeError, match="no back end 'nobody'"):
        compiler.set_default_backend("nobody")
    assert compiler.get_default_backend() == "inductor"
