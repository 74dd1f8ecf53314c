"""When compiled functions compile: `torch.compiler.set_stance`, for the whole process."""

from __future__ import annotations

__all__ = ["STANCES", "stance"]

STANCES = (
    *("default", "eager_then_compile", "aot_eager_then_compile", "force_eager"),
    *("eager_on_recompile", "fail_on_recompile"),
)


class _Stance:
    """The stance that is taken."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = "default"


stance = _Stance()
