"""What a device joins into one kernel: the plan of every machine, with other limits."""

from __future__ import annotations

from pullback.compiled.ir.values import EW, REDUCTIONS, Val
from pullback.compiled.plan.plan import Group, Plan, last_only

__all__ = ["CudaPlan", "is_wide"]

_FEW_ROWS = 128  # about as many as there are processors: fewer do not keep a device busy
_LONG_ROW = 8192


def is_wide(domain: tuple[int, ...]) -> bool:
    """Whether rows are few and long, so that each is shared out among many blocks."""
    rows = 1
    for n in domain[:-1]:
        rows *= n
    return rows < _FEW_ROWS and domain[-1:] > (_LONG_ROW,)


class CudaPlan(Plan):
    """Groups as kernels."""

    # A launch costs what an element's some thousand operations do; NVRTC takes long blocks well.
    most_nodes = 1000
    updates = False
    in_blocks = False

    def _stands_alone(self, value: Val) -> bool:
        """Sums that keep some of their rows too: their totals would not fit in registers."""
        if value.op not in REDUCTIONS:
            return value.op not in EW
        domain = value.ins[0].shape
        if last_only(value, domain):
            return False
        last = len(domain) - 1
        rows = {d for d, n in enumerate(domain[:-1]) if n != 1}
        return not rows <= set(value.attr) or (last not in value.attr and is_wide(domain))

    def _find_stored(self) -> None:
        super()._find_stored()
        for step in self.steps:
            if isinstance(step, Group) and is_wide(step.domain):
                # The next kernel reads them.
                self.stored.update(v.id for v in step.nodes if v.op in REDUCTIONS)
