"""Errors of devices: no memory left, and work that failed."""

from __future__ import annotations

__all__ = ["AcceleratorError", "OutOfMemoryError", "device_fault", "out_of_memory"]


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""


class AcceleratorError(RuntimeError):
    """A device reports an error."""


def out_of_memory(
    device: str,
    *,
    wanted: int,
    held: int,
    spare: int,
    free: int,
    whole: int,
    holders: list[tuple[int, str]],
) -> OutOfMemoryError:
    """A device has no memory left; `holders` tell bytes and who has them, most first."""
    lines = [
        f"{device} has no memory for {_in_bytes(wanted)} more: tensors hold {_in_bytes(held)}, "
        f"{_in_bytes(spare)} lie in the pool in pieces that are too small, {_in_bytes(free)} of "
        f"{_in_bytes(whole)} are free."
    ]
    if holders:
        lines.append("Most is held by")
        lines += [f"  {_in_bytes(size):>10}  {text}" for size, text in holders[:_HOLDERS]]
        if len(holders) > _HOLDERS:
            rest = sum(size for size, _ in holders[_HOLDERS:])
            lines.append(f"  {_in_bytes(rest):>10}  {len(holders) - _HOLDERS} others")
    lines.append(
        "Let go of what is not needed (del, no_grad(), smaller batches), or use "
        "torch.utils.checkpoint for what graphs keep."
    )
    return OutOfMemoryError("\n".join(lines))


_HOLDERS = 10


def _in_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def device_fault(what: str, error: Exception) -> AcceleratorError:
    """A device failed during an operator or a node; all that came before was waited for."""
    return AcceleratorError(
        f"{what} failed on the device: {error} Anomaly mode waits for the device after each step, "
        "and the steps before this one were done. The device cannot be used any more in this "
        "process; look for indices out of range, or memory that was given up too early."
    )
