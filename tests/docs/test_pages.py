"""Every page of the documents runs as it is printed."""

import contextlib
import doctest
import itertools
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
# Pages that leave out parts of what is printed.
SHORTENED = {"coming-from-torch.md", "debugging.md", "tensors.md", "tutorial/2-tensors.md"}
# Pages that show by examples, and would say little without.
BY_EXAMPLE = [
    "checkpointing.md",
    "custom-functions.md",
    "data.md",
    "derivatives.md",
    "dispatch.md",
    "distributions.md",
    "numbers.md",
    "optim.md",
    "seeing-the-graph.md",
    "sparse.md",
    "subclasses.md",
    "tensors.md",
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = {
    "gpu.md": "where there is a device: tests/cuda/test_page.py",
    "from-scratch.md": "a program, run by test_from_scratch.py",
    "custom-operators.md": "in parts, by what they need: tests/library/test_docs.py",
}


def programs():
    for page in sorted(DOCS.rglob("*.md")):
        name = str(page.relative_to(DOCS))
        if name not in ELSEWHERE and not name.startswith("spec/"):
            blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
            if blocks:
                yield pytest.param(page, blocks, id=name)


@pytest.mark.parametrize(("page", "blocks"), list(programs()))
def test_a_page_prints_what_it_shows(page, blocks):
    short = str(page.relative_to(DOCS)) in SHORTENED
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS if short else 0
    names = {"__name__": "__main__"}
    said = []
    for number, block in enumerate(blocks):
        if ">>>" not in block:  # a program, or a fragment of the reader's own, which lacks names
            with contextlib.suppress(NameError):
                exec(compile(block, f"{page.name}, block {number}", "exec"), names)
            continue
        parsed = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
        doctest.DocTestRunner(optionflags=flags).run(parsed, out=said.append, clear_globs=False)
        names.update(parsed.globs)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", BY_EXAMPLE)
def test_a_page_that_shows_by_examples_has_many(name):
    blocks = BLOCK.findall((DOCS / name).read_text(encoding="utf-8"))
    examples = doctest.DocTestParser().get_examples("\n".join(blocks))
    assert len(examples) > 10


def test_the_tutorial_goes_from_a_gradient_to_a_transformer():
    pages = sorted((DOCS / "tutorial").glob("*.md"))
    assert [int(page.name[0]) for page in pages] == list(range(1, len(pages) + 1))
    for page, following in itertools.pairwise(pages):
        assert f"]({following.name})" in page.read_text(encoding="utf-8")
