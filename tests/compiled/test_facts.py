"""What a tensor tells of itself besides its values is what it tells in eager mode, for each tensor.

A compiled function looks at stand-ins. Whatever method or property answers with a plain value is
asked here of tensors of all kinds in turn, so that an answer that is not guarded shows.
"""

import pytest

import pullback as torch

FEW = 6  # calls of one function, below the number of programs that it may have


def kinds():
    """Tensors that are alike in what programs compute with, and differ in all else."""
    base = torch.arange(12.0)
    leaf = base.clone().requires_grad_()
    graded = base.clone().requires_grad_()
    graded.grad = torch.ones(12)
    retained = leaf * 2
    retained.retain_grad()
    hooked = base.clone().requires_grad_()
    hooked.register_hook(lambda grad: grad)
    with torch.inference_mode():
        inferred = base.clone()
    return {
        "plain": base.clone(),
        "view": base.view(12),
        "later": torch.arange(20.0)[5:17],
        "stepped": torch.arange(24.0)[::2],
        "written": base.clone().add_(0),
        "expanded": torch.ones(1).expand(12),
        "inference": inferred,
        "part of inference": inferred[1:],
        "leaf": leaf,
        "node": leaf + 0,
        "view of a node": (leaf + 0)[2:],
        "graded": graded,
        "retained": retained,
        "hooked": hooked,
        "parameter": torch.nn.Parameter(base.clone()),
        "complex": torch.complex(base, base),
        "conjugate": torch.complex(base, base).conj(),
        "imaginary": torch.complex(base, base).imag,
        "empty": base[:0],
        "one": base[3],
        "images": torch.ones(2, 3, 2, 2),
        "channels last": torch.ones(2, 3, 2, 2).to(memory_format=torch.channels_last),
        "transposed": base.view(3, 4).t(),
    }


PLAIN = (bool, int, float, str, tuple, type(None), torch.dtype, torch.Size, torch.device)
# What says where or who a tensor is, and what changes something: a class is entered as another.
LEFT_OUT = {"data_ptr", "_version", "__hash__", "__dir__", "__sizeof__", "__reduce__"}
LEFT_OUT |= {"__getstate__", "__init_subclass__"}


def _answer(tensor, name):
    found = getattr(tensor, name)
    return found() if callable(found) else found


def _tells(name):
    if name in LEFT_OUT or (name.startswith("_") and not name.endswith("__")):
        return False
    if name.endswith("_") and not name.endswith("__"):
        return False
    try:
        found = _answer(torch.arange(12.0), name)
    except Exception:
        return False
    parts = found if isinstance(found, tuple) else ()
    return isinstance(found, PLAIN) and not any(isinstance(one, torch.Tensor) for one in parts)


def expressions():
    named = [name for name in dir(torch.Tensor) if _tells(name)]
    asked = [
        f"x.{one}()" if callable(getattr(torch.arange(3.0), one)) else f"x.{one}" for one in named
    ]
    functions = [f"torch.{one}(x)" for one in dir(torch) if one.startswith("is_")]
    return [
        *asked,
        *functions,
        *("x.view(-1).storage_offset()", "x.detach().is_inference()", "x.view(-1)._is_view()"),
        *("x.as_strided((2,), (1,), 0).sum()", "torch.as_strided(x, (2,), (1,)).sum()"),
        *("x[1:].as_strided((2,), (1,), storage_offset=2).sum()", "x.view(torch.float64).sum()"),
        *(
            "(x[:4].view(torch.uint8) + 0).sum()",
            "x[2:].storage_offset()",
            "x._base is None",
            "x._is_view()",
        ),
        *("x.stride()", "x.is_contiguous(memory_format=torch.channels_last)"),
    ]


def answer(function, tensor):
    try:
        return function(tensor)
    except Exception as error:
        return type(error).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", expressions())
def test_an_answer_is_that_of_the_tensor_of_this_call(text):
    scope = {"torch": torch}
    exec(f"def tell(x):\n    y = x + 1\n    return {text}, y", scope)
    tell, asked = scope["tell"], kinds()
    order = list(asked)
    for at in range(0, len(order), FEW):
        for names in (["plain", *order[at : at + FEW]], [*order[at : at + FEW][::-1], "plain"]):
            compiled = torch.compile(tell, options={"never_slower": False})
            for name in names:
                expected, found = answer(tell, asked[name]), answer(compiled, asked[name])
                if isinstance(expected, str):
                    assert found == expected, (name, names)
                    continue
                assert type(found[0]) is type(expected[0]), (name, names)
                assert found[0] is expected[0] or found[0] == expected[0], (name, names)
