"""The text of a tensor is that of its values, by whatever way a compiled function asks for it."""

import pprint
import string

import pytest

import pullback as torch

WAYS = {
    "str": str,
    "repr": repr,
    "format": format,
    "ascii": ascii,
    "percent": lambda x: "%s" % x,  # noqa: UP031  # another way than format's
    "percent of a tuple": lambda x: "%r %d" % (x, 3),  # noqa: UP031
    "method": lambda x: x.__str__(),
    "method of the class": lambda x: type(x).__repr__(x),
    "method of object": lambda x: object.__str__(x),
    "f-string": lambda x: f"{x!r:>80}",
    "format string": lambda x: "{a[0]}".format(a=[x]),  # noqa: UP032
    "list": lambda x: str([x]),
    "dict": lambda x: repr({"k": (x,)}),
    "error": lambda x: str(ValueError(x)),
    "error with others": lambda x: repr(KeyError(1, x)),
    "pprint": pprint.pformat,
    "template": lambda x: string.Template("$a").substitute(a=x),
    "join": lambda x: "".join(map(str, [x, x])),
    "why": lambda x: (x * 1).why_no_grad(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inside", [False, True], ids=["given", "computed"])
@pytest.mark.parametrize("name", WAYS)
def test_text_is_that_of_the_values(name, inside):
    way = WAYS[name]

    def tell(x):
        return way(x * 2 if inside else x), x + 1

    compiled = torch.compile(tell, options={"never_slower": False})
    for scale in (1.0, 2.0, 1.0):
        x = torch.arange(3.0) * scale
        assert compiled(x)[0] == tell(x)[0]


@pytest.mark.parametrize("backend", ["llvm", "python"])
def test_places_in_memory_are_counted_from_each_tensors_own(backend):
    def windows(x):
        return torch.as_strided(x, (2, 2), (1, 1)) + x.as_strided((2, 2), (2, 1))

    compiled = torch.compile(windows, backend=backend, options={"never_slower": False})
    memory = torch.arange(20.0)
    for start in (0, 5, 3, 0):
        x = memory[start : start + 6]
        assert compiled(x).equal(windows(x))


@pytest.mark.filterwarnings("ignore")
def test_an_error_that_holds_a_tensor_ends_the_capture_alone():
    key = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def function(x):
        kept = [x + 1]
        print(len(kept), end="")
        return kept[0] * {key: 3.0}[key]

    def missing(x):
        try:
            return x * {}[x]
        except KeyError as error:
            return x + len(error.args)

    for one in (function, missing):
        compiled = torch.compile(one, options={"never_slower": False})
        for _ in range(3):
            torch.testing.assert_close(compiled(torch.ones(2)), one(torch.ones(2)))
