"""What the processor can do, as far as NumPy has looked."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public

__all__ = ["get_cpu_capability"]


def found_features() -> list[str]:
    """The names of the processor's features that NumPy found and can use."""
    import contextlib
    import io

    import numpy

    with contextlib.redirect_stdout(io.StringIO()):
        config = numpy.show_config(mode="dicts")
    found = (config or {}).get("SIMD Extensions", {})
    return [*found.get("baseline", ()), *found.get("found", ())]


def get_cpu_capability() -> str:
    """The widest vector instructions: "AVX512", "AVX2" or "DEFAULT".

    >>> import pullback as torch
    >>> torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    True
    """
    features = found_features()
    if any(name.startswith("AVX512") or name == "X86_V4" for name in features):
        return "AVX512"
    return "AVX2" if {"AVX2", "X86_V3"} & set(features) else "DEFAULT"


__dir__ = _only_public(globals())
