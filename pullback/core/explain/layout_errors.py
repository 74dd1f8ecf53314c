"""What is said where a sparse or nested tensor meets what takes strided ones: who, what now."""

from __future__ import annotations

__all__ = [
    "LayoutAttributeError",
    "gradient_layout",
    "has_no",
    "is_no_array",
    "not_taken",
    "not_taken_nested",
    "root_layout",
    "wants",
]


class LayoutAttributeError(NotImplementedError, AttributeError):
    """Not there for this kind; an AttributeError to `hasattr`, which asks in many places."""


def not_taken(op: str, layout: object, also: str = "") -> NotImplementedError:
    """An operator that has no meaning for a kind, or none here."""
    return NotImplementedError(
        f"{op}: tensors of layout {layout} are not taken{also}. Call to_dense() on it first."
    )


def not_taken_nested(op: str, layout: object, also: str = "") -> NotImplementedError:
    """An operator that has no meaning for nested tensors, or none here."""
    return NotImplementedError(
        f"{op}: nested tensors of layout {layout} are not taken{also}. Compute with the tensors of "
        "unbind(), with values(), or with to_padded_tensor(padding)."
    )


def has_no(name: str, layout: object, instead: str = "to_dense()") -> LayoutAttributeError:
    """Something that only arrays of memory have."""
    return LayoutAttributeError(
        f"A tensor of layout {layout} has no {name}, as strided ones have. Call {instead} on it "
        "first, or take its values()."
    )


def is_no_array(layout: object) -> TypeError:
    """A sparse tensor where an array is needed."""
    return TypeError(
        f"A tensor of layout {layout} cannot become an array. Call to_dense() on it first."
    )


def wants(op: str, wanted: str, layout: object) -> RuntimeError:
    """A function of one layout, called on another."""
    return RuntimeError(f"{op}: needs a tensor of layout {wanted}, got one of layout {layout}.")


def root_layout(index: int, got: object, expected: object) -> RuntimeError:
    """A gradient given to backward() in a layout that cannot stand for its tensor's."""
    return RuntimeError(
        f"The gradient of tensor {index} has layout {got}, the tensor {expected}. Pass one of the "
        "tensor's layout, or a dense or COO one (to_dense(), to_sparse())."
    )


def gradient_layout(node: str, index: int, got: object, expected: object) -> RuntimeError:
    """A gradient of a layout that cannot stand for its input's."""
    return RuntimeError(
        f"{node} returned a gradient of layout {got} for input {index}, which has layout "
        f"{expected}. Return the input's layout, or a dense or COO gradient (to_dense(), "
        "to_sparse())."
    )
