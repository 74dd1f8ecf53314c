"""Every parameter of every public callable is described, in a docstring or in the shared table."""

import inspect

import pytest

from tools import arguments, reference

pytestmark = pytest.mark.filterwarnings("ignore")  # reading old names warns, as in torch


def every():
    for path, title in reference.MODULES.items():
        for name in reference.public_names(path):
            yield f"{title}.{name}", getattr(reference.found(path), name)


def test_every_parameter_of_every_public_callable_is_described():
    missing = [
        f"{title}({parameter.name})"
        for title, value in every()
        for parameter in arguments.parameters(title, value)
        if parameter.name not in arguments.described(title, value)
    ]
    assert missing == []


def test_args_sections_name_parameters_that_exist():
    unknown = []
    for title, value in every():
        own = arguments._of_docstring(inspect.getdoc(value) or "")
        names = {parameter.name for parameter in arguments.parameters(title, value)}
        if not title.startswith("torch.Tensor."):  # a docstring of the function names the receiver
            unknown += [f"{title}({name})" for name in own.keys() - names]
    assert unknown == []


def test_every_shared_description_is_used():
    used = set()
    for title, value in every():
        used |= arguments.described(title, value).items()
    spare = [
        (section, name)
        for section, texts in arguments._file().items()
        for name, text in texts.items()
        if (name, text) not in used
    ]
    assert spare == []


def documented(size, *rest, mode="plain"):
    """Do it.

    Args:
        size: How large,
            and how wide.
        *rest: What is
            left.

    Returns:
        What was done.

    >>> documented(1)
    """


def test_the_docstring_wins_over_the_shared_table():
    texts = arguments.described("torch.full", documented)
    assert texts["size"] == "How large, and how wide."
    assert texts["rest"] == "What is left."


def test_a_particular_section_wins_over_a_general_one():
    def convolve(input, bias):
        pass

    assert arguments.described("torch.nn.Conv2d", convolve)["bias"].startswith("Whether")
    assert arguments.described("torch.conv2d", convolve)["bias"].startswith("Tensor")


def test_the_table_has_name_default_and_description():
    rows = list(arguments.table("torch.somewhere", documented))
    assert "| `size` |  | How large, and how wide. |" in rows
    assert "| `*rest` |  | What is left. |" in rows
    assert any(row.startswith("| `mode` | `'plain'` |") for row in rows)


def test_sections_of_a_docstring_become_headings_lists_and_fences():
    text = "\n".join(reference._entry("torch", "documented", documented))
    assert "Args" not in text
    assert "**Returns**\n\n- What was done." in text
    assert "```python\n>>> documented(1)\n```" in text


def test_a_method_leaves_out_its_receiver_and_an_enumeration_its_machinery():
    import pullback as torch

    names = [p.name for p in arguments.parameters("torch.Tensor.abs", torch.Tensor.abs)]
    assert "input" not in names
    assert "self" not in names
    assert arguments.parameters("torch.distributed.ReduceOp", torch.distributed.ReduceOp) == []
