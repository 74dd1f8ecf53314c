"""Names given to functional_call that a module has, has not, or cannot have."""

import pytest

from tests.differential.nn.sides import LIBRARIES

torch = pytest.importorskip("torch")


def model_of(library):
    class Model(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = library.nn.Linear(2, 2)
            self.register_buffer("none", None)
            self.register_parameter("nothing", None)
            self.plain, self.number = library.ones(2), 3
            self.seq = library.nn.Sequential(library.nn.ReLU())
            with library.no_grad():
                for parameter in self.parameters():
                    parameter.fill_(0.5)

        def forward(self, x):
            for owner, name in ((self, "extra"), (self.lin, "more"), (self.seq[0], "x")):
                x = x + getattr(owner, name, 0.0)
            for one in (self.none, self.nothing):
                x = x if one is None else x + one
            return self.lin(x) + self.plain

    return Model()


NAMES = [
    *("extra", "lin.more", "lin.weight", "lin.bias", "none", "nothing", "plain", "seq.0.x"),
    *("torch.weight", "seq.1.x", "lin..weight", "plain.x", "number.x", "lin", "number", "forward"),
    *("", "lin.", ".lin", "lin.in_features", "training"),
]
VALUES = {
    "a tensor": lambda library: library.full((2,), 3.0),
    "a matrix": lambda library: library.full((2, 2), 3.0),
    "a number": lambda library: 3,
    "nothing": lambda library: None,
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_what_it_means_to_torch(name, value, strict):
    outcomes = []
    for library in LIBRARIES:
        model = model_of(library)
        given = {name: VALUES[value](library)}
        try:
            out = library.func.functional_call(model, given, library.ones(1, 2), strict=strict)
            outcome = out.tolist()
        except Exception as error:
            outcome = type(error).__name__
        left = [hasattr(owner, "extra") or hasattr(owner, "more") for owner in model.modules()]
        outcomes.append((outcome, left, model(library.ones(1, 2)).tolist()))
    assert outcomes[0] == outcomes[1]
