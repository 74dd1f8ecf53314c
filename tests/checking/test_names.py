"""Every public name of torch is here, or the one table says why not."""

import pytest

from pullback.checking import names
from pullback.core.explain import absent

pytestmark = pytest.mark.filterwarnings("ignore")  # reading old names warns, as in torch


def every_path():
    for module, listed in [*names.public().items(), *names.classes().items()]:
        start = "" if module == "torch" else f"{module}."
        yield from (start + name for name in listed)


def test_the_list_has_torch_itself_its_modules_and_classes():
    assert "matmul" in names.public()["torch"]
    assert "scaled_dot_product_attention" in names.public()["nn.functional"]
    assert "backward" in names.classes()["Tensor"]
    assert len(set(every_path())) > 5000


def test_every_name_that_is_not_here_has_a_reason():
    found = {path: names.status(path) for path in every_path()}
    assert [p for p, s in found.items() if s.kind == "unknown" or s.why == "not here yet"] == []


def test_no_reason_is_given_for_a_name_that_is_here():
    single = [path for path in absent.tables()[0] if "*" not in path]
    here = [path for path in single if names.status(path).kind == "here"]
    assert [path for path in here if not isinstance(names.find(path), type(pytest))] == []


def test_what_is_partly_here_is_here():
    assert {names.status(path).kind for path in absent.tables()[1]} == {"partly"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("nn.Linear", "here"),
        ("Tensor.view", "here"),
        ("autograd.gradcheck.GradcheckError", "here"),  # a function hides that module
        ("compile", "partly"),
        ("onnx.export", "missing"),
        ("utils.cpp_extension.load", "missing"),  # there, and refuses
        ("nn.Linaer", "unknown"),
    ],
)
def test_status(path, kind):
    assert names.status(path).kind == kind


def test_a_slip_is_told_the_near_name():
    assert names.status("nn.Linaer").why.endswith("did you mean torch.nn.Linear?")


def test_keywords_are_those_of_the_function_here():
    assert names.unknown_keywords("zeros", ("dtype", "device", "requires_grad")) == ()
    assert names.unknown_keywords("optim.Adam", ("lr", "speed")) == ("speed",)
    assert names.unknown_keywords("no_such", ("lr",)) == ()
