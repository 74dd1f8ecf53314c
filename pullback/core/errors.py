"""What graph, engine and tensors tell a user, a function each: what happened, why not, what to do.

So do sentences that several families of operators say; a family's own stand where it checks, in a
`checks` or `errors` of its own where they are many. Functions return the exception, so that the
`raise` stays visible where it happens. The type is the one torch raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.dtype import from_numpy_dtype
from pullback.core.explain import anomaly

if TYPE_CHECKING:
    from pullback.core.node import Node
    from pullback.core.saved import Freed


def _at(origin: object) -> str:
    return f" at {origin}" if origin is not None else ""


def _name(node: Node) -> str:
    return type(node).name(node)  # users may set `ctx.name`


def _shape(value: Any) -> str:
    return str(tuple(value.shape))


# Graph and saved values ------------------------------------------------------------------------


def graph_freed(node: Node, freed: Freed) -> RuntimeError:
    """A second backward over values that the first one dropped."""
    from pullback.core.explain import rejoin  # few programs come here

    return RuntimeError(
        "Trying to backward through the graph a second time: "
        f"{_name(node)} (made{_at(node._origin)}) no longer has its saved values, as the backward "
        f"pass{_at(freed.by)} used and freed them. {rejoin.told(node, freed)}Pass "
        "retain_graph=True to the call that comes first if the graph is to be used again, add the "
        "losses and call backward() once, or compute the result anew."
    )


def gradient_device(what: str, got: object, expected: object) -> RuntimeError:
    """A gradient somewhere else than what it is the gradient of."""
    return RuntimeError(
        f"The gradient of {what} is on device {got}, expected device {expected}. Only a gradient "
        f"of no dimensions is moved; return one on {expected}, or move it with .to()."
    )


def changed_in_place(
    node: Node, name: str, value: Any, version: int, made: list[str], expected: int
) -> RuntimeError:
    """A saved value was overwritten after it was saved."""
    by = f" by {', then '.join(made)}" if made else ""
    hint = (
        "The forward call that saved it is shown above."
        if anomaly.state.enabled
        else "Anomaly detection shows the forward call: autograd.set_detect_anomaly(True)."
    )
    return RuntimeError(
        f"{_name(node)}{_at(node._origin)} needs `{name}` ({value.dtype}, shape {_shape(value)}) "
        f"as it was when it was saved, but it was modified by an inplace operation since{by}: it "
        f"is at version {version}, expected version {expected}. Clone it before the write, or "
        f"write out of place (`x = x + 1` instead of `x += 1`). {hint}"
    )


def saved_was_detached(node: Node, name: str) -> RuntimeError:
    """A saved input lost its place in the graph."""
    return RuntimeError(
        f"{_name(node)}{_at(node._origin)} needs `{name}` as it was saved, but detach_() took that "
        "tensor out of the graph since. Use the out-of-place `detach()` and keep its result."
    )


def no_derivative(op: str, origin: object) -> NotImplementedError:
    """Backward through an operator that has no derivative."""
    return NotImplementedError(
        f"The derivative of {op} (called{_at(origin)}) is not implemented. Detach its result if it "
        "is meant as a constant, or compute it from other operators."
    )


def pack_hook_wrote() -> RuntimeError:
    """A pack hook changed the tensor it was given."""
    return RuntimeError(
        "A saved-tensor pack hook modified its argument in place. Clone the argument there first."
    )


def unpack_hook_returned(kind: type) -> TypeError:
    """An unpack hook gave back something else than a tensor."""
    return TypeError(
        f"A saved-tensor unpack hook must return a Tensor, but returned {kind.__name__}."
    )


def hooked_twice() -> RuntimeError:
    """A second pair of hooks on one saved value."""
    return RuntimeError("This saved tensor has hooks already; there can be one pair only.")


def hook_on_none() -> RuntimeError:
    """Hooks where the node kept no tensor."""
    return RuntimeError(
        "This node saved no tensor here (no gradient needs it, or it is a number), so there is "
        "nothing to hook."
    )


def fixed_sequence_number(name: str) -> RuntimeError:
    """Only operator nodes can be renumbered."""
    return RuntimeError(f"{name} has no place in the creation order, so its number cannot be set.")


def node_not_copied(name: str) -> TypeError:
    """Nodes belong to one graph."""
    return TypeError(
        f"{name} cannot be pickled or copied: it belongs to one graph. Copy the tensors' data "
        "instead."
    )


# Leaves and requires_grad ----------------------------------------------------------------------


def only_leaves_change_requires_grad(value: bool) -> RuntimeError:
    """`requires_grad` of a computed tensor follows from its inputs."""
    remedy = "" if value else " Use `detach()` to get a tensor without history."
    return RuntimeError(
        "requires_grad can only be changed on leaf tensors; this one was computed by an operator, "
        f"so it always requires grad.{remedy}"
    )


def not_differentiable_dtype(dtype: object) -> RuntimeError:
    """Integers and bools have no gradients."""
    return RuntimeError(
        f"Only tensors of floating point or complex dtype can require gradients, not {dtype}. "
        "Convert first, e.g. with `.float()`."
    )


def requires_grad_not_bool(value: object) -> RuntimeError:
    """`t.requires_grad = 1` and the like."""
    return RuntimeError(f"requires_grad must be a bool, got {type(value).__name__}.")


def retain_grad_without_grad() -> RuntimeError:
    """Nothing flows to a tensor that does not require grad."""
    return RuntimeError(
        "retain_grad() needs a tensor that requires grad; set requires_grad=True before computing "
        "it."
    )


def hook_without_grad() -> RuntimeError:
    """Nothing flows to a tensor that does not require grad."""
    return RuntimeError(
        "A hook needs a tensor that requires gradient, and this one does not; nothing would ever "
        "call it. Set requires_grad=True before computing with it."
    )


def post_accumulate_hook_needs_leaf() -> RuntimeError:
    """Only leaves accumulate."""
    return RuntimeError(
        "A post-accumulate-grad hook can only be put on a leaf that requires grad. For other "
        "tensors use register_hook."
    )


def detach_view() -> RuntimeError:
    """`detach_` would tear a view from its base."""
    return RuntimeError("A view cannot be detached in place; use `detach()` and keep its result.")


def non_leaf_deepcopy() -> RuntimeError:
    """A copied history would belong to nobody."""
    return RuntimeError(
        "Only leaf tensors (made by the user) can be deep-copied; this one has a grad_fn. Use "
        "`detach().clone()`, or copy its leaves and compute it again."
    )


# The grad attribute ----------------------------------------------------------------------------


def grad_not_tensor(kind: type) -> TypeError:
    """`.grad` holds tensors."""
    return TypeError(f".grad must be a Tensor or None, got {kind.__name__}.")


def grad_is_self() -> RuntimeError:
    """A tensor as its own gradient."""
    return RuntimeError("A tensor cannot be its own gradient; assign a clone instead.")


def grad_mismatch(what: str, got: object, expected: object) -> RuntimeError:
    """An assigned gradient that does not fit."""
    return RuntimeError(
        f"The assigned gradient has {what} {got}, but the tensor needs {what} {expected}. Convert "
        "it first."
    )


# Versions --------------------------------------------------------------------------------------


def inference_has_no_version() -> RuntimeError:
    """Inference tensors are not tracked."""
    return RuntimeError(
        "An inference tensor has no version counter and cannot be saved for backward. Clone it "
        "outside inference_mode to get a normal tensor, or use no_grad instead of inference_mode."
    )


# In-place writes -------------------------------------------------------------------------------


def leaf_written(op: str) -> RuntimeError:
    """A recorded in-place write to a leaf."""
    return RuntimeError(
        f"{op}: a leaf tensor that requires grad is used in an in-place operation; its gradient "
        "is accumulated for the value it had. Use the out-of-place form, or write under "
        "torch.no_grad()."
    )


def leaf_view_written(op: str) -> RuntimeError:
    """A recorded in-place write to a view of a leaf."""
    return RuntimeError(
        f"{op}: a view of a leaf tensor that requires grad is used in an in-place operation. Clone "
        "the leaf first, or write under torch.no_grad()."
    )


def read_only(op: str) -> RuntimeError:
    """The target's memory may not be written."""
    return RuntimeError(
        f"{op}: the memory of the written tensor is read-only: it is that of an immutable object, "
        "of a file opened for reading, or of an array that is not writeable. `clone()` the tensor "
        "before writing."
    )


def overlapping_write(op: str) -> RuntimeError:
    """The target is an expanded tensor."""
    return RuntimeError(
        f"{op}: several elements of the written tensor share one memory location (it was "
        "expanded). "
        "`clone()` it before writing."
    )


def partly_overlapping_write(op: str) -> RuntimeError:
    """An operand shares some, but not all, of the target's memory."""
    return RuntimeError(
        f"{op}: some elements of the input tensor and of the written tensor share one memory "
        "location: both are views of one memory, and overlap in part. Clone the input first."
    )


def written_while_read(op: str) -> RuntimeError:
    """An operand that says what goes where is on the memory that is written to."""
    return RuntimeError(
        f"{op}: some elements of the input tensor and of the written tensor share one memory "
        "location, so what is read would depend on what was written before. Clone the input first."
    )


def inplace_shape(op: str, target: tuple[int, ...], result: tuple[int, ...]) -> RuntimeError:
    """An in-place result that does not fit its target."""
    return RuntimeError(
        f"{op}: the result has shape {tuple(result)}, but an in-place operation keeps the shape "
        f"{tuple(target)} of its target. Use the out-of-place form."
    )


def inplace_dtype(op: str, target: object, result: object) -> RuntimeError:
    """An in-place result whose dtype cannot go into the target."""
    return RuntimeError(
        f"{op}: result dtype {result} can't be cast to the target's dtype {target}. Use the "
        "out-of-place form, or convert the target first."
    )


def view_forbids_write(reason: str) -> RuntimeError:
    """A view made in a way that its history cannot be rebuilt."""
    return RuntimeError(reason)


def out_requires_grad(op: str) -> RuntimeError:
    """`out=` with tracked arguments."""
    return RuntimeError(
        f"{op}: out=... does not support automatic differentiation, but an argument requires grad. "
        "Leave `out` away, or call it under torch.no_grad()."
    )


# Arguments -------------------------------------------------------------------------------------


def bad_dim(op: str, dim: int, ndim: int) -> IndexError:
    """A dimension that does not exist."""
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return IndexError(
        f"{op}: dim {dim} does not exist in a tensor of {ndim} dimensions; use {low} to {high}."
    )


def repeated_dim(op: str, dim: int) -> RuntimeError:
    """A dimension named twice."""
    return RuntimeError(f"{op}: dim {dim} appears more than once; name each dimension once.")


def not_an_int(op: str, name: str, value: object) -> TypeError:
    """An option that must be an int."""
    return TypeError(f"{op}(): argument `{name}` must be int, got {type(value).__name__}.")


def not_a_number(op: str, name: str, value: object) -> TypeError:
    """An option that must be a number."""
    if getattr(value, "requires_grad", False):
        return TypeError(
            f"{op}(): argument `{name}` is a number, and has no gradient; the tensor given for it "
            "requires grad. Multiply by the tensor, or pass its item()."
        )
    got = type(value).__name__
    wanted = "real number" if isinstance(value, complex) else "number"
    return TypeError(f"{op}(): argument `{name}` must be a {wanted}, got {got}.")


def not_a_bool(op: str, name: str, value: object) -> TypeError:
    """An option that must be True or False."""
    return TypeError(f"{op}(): argument `{name}` must be bool, got {type(value).__name__}.")


def not_a_sequence(op: str, name: str, value: object) -> TypeError:
    """An option that must be several ints."""
    return TypeError(
        f"{op}(): argument `{name}` must be a tuple of ints, got {type(value).__name__}; write "
        f"({value},)."
    )


def unordered(op: str, name: str, value: object) -> TypeError:
    """Ints given as a set or a dict."""
    return TypeError(
        f"{op}(): argument `{name}` must be a tuple of ints, got {type(value).__name__}, which has "
        "no order of its own."
    )


def not_a_tensor(op: str, name: str, value: object) -> TypeError:
    """An argument that must be a tensor."""
    return TypeError(f"{op}(): argument `{name}` must be a Tensor, got {type(value).__name__}.")


def devices_differ(op: str, name: str) -> RuntimeError:
    """Operands of one operator on two devices."""
    return RuntimeError(
        f"{op}: {name} is on device 'cpu' and another input on device 'meta'; all must be on one. "
        "Use .to('meta') on it, or give the other one data."
    )


def as_called(error: Exception, called: str, *inner: str) -> Exception:
    """The same error under the name that the user wrote, where an operator inside raised it."""
    text = str(error)
    for name in inner:
        if text.startswith((f"{name}: ", f"{name}(")):
            return type(error)(called + text.removeprefix(name))
    return error


def two_devices(op: str, numbers: list[int]) -> RuntimeError:
    """Operands on two CUDA devices."""
    places = " and ".join(f"cuda:{number}" for number in numbers)
    return RuntimeError(
        f"{op}: its inputs are on {places}; all must be on one. Move them with .to(device)."
    )


def devices_mixed(op: str, name: str) -> RuntimeError:
    """An operand in the host's memory beside others on a device."""
    return RuntimeError(
        f"{op}: {name} is on device 'cpu' and another input on a CUDA device; all must be on one. "
        "Move it with .to(device); only tensors of no dimensions may stay on the host."
    )


def not_on_host(what: str, place: object) -> TypeError:
    """Values of a tensor on a device, asked for as if they were in the host's memory."""
    return TypeError(
        f"{what}: the tensor is on {place}, and NumPy's arrays are in the host's memory. Use "
        "`tensor.cpu()` first."
    )


def no_data(what: str, kind: type[Exception] = NotImplementedError) -> Exception:
    """Values asked of a tensor that has none."""
    return kind(
        f"{what}: a tensor on device 'meta' has a shape but no data, so there is nothing to read. "
        "Make the tensor on another device."
    )


def no_array(what: str, kind: type) -> Exception:
    """Values asked of a tensor whose class keeps them in ways of its own."""
    return RuntimeError(
        f"{what}: {kind.__name__} answers operators by its __torch_dispatch__, so it has no array "
        "of values to show. Ask the tensors that it wraps."
    )


def too_large(op: str, error: Exception) -> RuntimeError:
    """Memory, or a number, that no array has room for."""
    if isinstance(error, MemoryError):
        text = str(error).partition("Unable to allocate ")[2].partition(" for")[0]
        wanted = f" ({text})" if text else ""
        return RuntimeError(f"{op}: there is no memory{wanted} for what this needs.")
    return RuntimeError(f"{op}: a number is too large for where it goes; 64 bits are the most.")


def is_of_dimensions(error: Exception) -> bool:
    """Whether NumPy refuses because a result would have more dimensions than its arrays can."""
    return any(words in str(error) for words in _ABOUT_DIMENSIONS)


_ABOUT_DIMENSIONS = (
    "maximum supported dimension",
    "number of dimensions must be within",
    "must be <= ndmax",
)


def too_many_dimensions(op: str) -> RuntimeError:
    """NumPy's arrays have 64 dimensions at most."""
    return RuntimeError(
        f"{op}: the result would have more than 64 dimensions, which is the most that an array can "
        "have. Join some of them, e.g. by flatten()."
    )


def kernel_failed(op: str, shapes: str, error: Exception) -> Exception:
    """NumPy refused; say it with the operator's name and shapes.

    A TypeError stays one, as it is about an option of the wrong type, unless NumPy has no such
    operation for the inputs' dtype.
    """
    if isinstance(error, MemoryError | OverflowError):
        return too_large(op, error)
    text = str(error)
    if text.endswith("is read-only"):
        return read_only(op)
    if is_of_dimensions(error):
        return too_many_dimensions(op)
    about_dtype = type(error) is not TypeError or any(words in text for words in _ABOUT_DTYPES)
    if not about_dtype and text.startswith(f"{op}()"):
        return error  # our own words already
    kind = RuntimeError if about_dtype else TypeError
    return kind(f"{op}: {text} (inputs: {shapes})")


# In NumPy's refusals of a dtype; it has a class of its own for some of them only.
_ABOUT_DTYPES = ("ufunc", "boolean", "unsupported in linalg", "dtype", "Cannot cast")


def shapes_do_not_broadcast(op: str, *shapes: tuple[int, ...]) -> RuntimeError:
    """Operands that do not broadcast together; the offending dimension is shown."""
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    dims = range(-1, -ndim - 1, -1)
    at = next((dim for dim in dims if len({p[dim] for p in padded if p[dim] != 1}) > 1), None)
    listed = " and ".join(str(tuple(shape)) for shape in shapes)
    if at is None:  # together they do, but to more than the first, which is to be written
        return RuntimeError(
            f"{op}: shapes {listed} broadcast to more than the first, which keeps its shape. "
            "Expand it first."
        )
    sizes = " and ".join(str(p[at]) for p in padded if p[at] != 1)
    return RuntimeError(
        f"{op}: shapes {listed} do not broadcast: sizes {sizes} meet at dim {at}. Sizes must be "
        "equal there, or one of them 1 (unsqueeze or expand one operand)."
    )


# Backward --------------------------------------------------------------------------------------


def gradient_shape(
    node: str, index: int, got: tuple[int, ...], expected: tuple[int, ...]
) -> RuntimeError:
    """A returned gradient that fits nowhere."""
    return RuntimeError(
        f"{node} returned an invalid gradient at index {index}: got shape {got}, but the input has "
        f"shape {expected}, and summing over broadcast dimensions does not lead there."
    )


def gradient_complex(node: str, index: int, expected: object) -> RuntimeError:
    """A complex gradient for a real tensor."""
    return RuntimeError(
        f"{node} returned a complex gradient at index {index} for an input of dtype {expected}. "
        "Take the real part in the backward formula."
    )


def leaf_moved_inside() -> RuntimeError:
    """A leaf got a history after the graph was built."""
    return RuntimeError(
        "A leaf of this graph has been given a history by an in-place write since the graph was "
        "built: "
        "it moved into the graph's interior, so its gradient has nowhere to go. Clone it before "
        "the write."
    )


def stored_grad_shape(stored: tuple[int, ...], arriving: tuple[int, ...]) -> RuntimeError:
    """A leaf whose data was swapped for one of another shape, while it had a gradient."""
    return RuntimeError(
        f"The stored .grad has shape {tuple(stored)}, the gradient that arrives {tuple(arriving)}: "
        "the leaf's .data was replaced since. Set .grad to None first."
    )


def stored_grad_inference() -> RuntimeError:
    """A gradient made in inference mode and assigned by the user."""
    return RuntimeError(
        "The stored .grad is an inference tensor, which cannot be changed outside inference_mode. "
        "Clone it before assigning it, or set .grad to None."
    )


class NodeMadeByHandError(RuntimeError, TypeError):
    """A RuntimeError; torch raises a TypeError for some classes of nodes, and it is one too."""


def node_made_by_hand(name: str) -> NodeMadeByHandError:
    """Users hold nodes, but do not make them."""
    return NodeMadeByHandError(
        f"{name} cannot be made by hand: operators make it when they record. Define a "
        "torch.autograd.Function for a backward step of your own."
    )


def root_without_history(index: int, why: str) -> RuntimeError:
    """backward() on something that nothing leads to; `why` is what `why_no_grad()` says."""
    return RuntimeError(
        f"element {index} of tensors does not require grad and does not have a grad_fn, so there "
        f"is nothing to differentiate. {why}"
    )


def implicit_gradient(shape: tuple[int, ...]) -> RuntimeError:
    """backward() without a gradient on a tensor of many elements."""
    return RuntimeError(
        f"grad can be implicitly created only for scalar outputs, and this one has shape {shape}. "
        "Sum it first, or pass the gradient of your loss with respect to it."
    )


def implicit_gradient_dtype(dtype: object) -> RuntimeError:
    """backward() without a gradient on a complex scalar."""
    return RuntimeError(
        f"grad can be implicitly created only for real scalar outputs, not for {dtype}. Pass a "
        "gradient."
    )


def root_gradient_shape(
    index: int, got: tuple[int, ...], expected: tuple[int, ...]
) -> RuntimeError:
    """A given gradient of another shape than its root."""
    return RuntimeError(
        f"Mismatch in shape: grad_output[{index}] has shape {got}, output[{index}] has shape "
        f"{expected}. "
        "They must be equal; expand or sum the gradient yourself."
    )


def root_gradient_dtype(index: int, got: object, expected: object) -> RuntimeError:
    """Real gradient for a complex root or the reverse."""
    return RuntimeError(
        f"grad_output[{index}] has dtype {got} and output[{index}] has dtype {expected}; both must "
        "be real or both complex."
    )


def root_gradient_count(roots: int, gradients: int) -> RuntimeError:
    """Fewer gradients than roots."""
    return RuntimeError(f"got {roots} tensors and {gradients} gradients; pass one gradient each.")


def unused_input(index: int) -> RuntimeError:
    """grad() asked for something that does not influence the outputs."""
    return RuntimeError(
        f"One of the differentiated tensors (inputs[{index}]) appears to not have been used in "
        "the graph. "
        "Pass allow_unused=True to get None for it, or materialize_grads=True to get zeros."
    )


def hook_returned(hook: object, what: str) -> RuntimeError:
    """A hook's replacement does not fit."""
    name = getattr(hook, "__name__", repr(hook))
    return RuntimeError(
        f"hook '{name}' has changed the {what} of the gradient, which it must keep."
    )


def hook_returned_type(hook: object, kind: type) -> TypeError:
    """A hook returned something that is no tensor."""
    name = getattr(hook, "__name__", repr(hook))
    return TypeError(f"hook '{name}' must return a Tensor or None, but returned {kind.__name__}.")


def hook_replaced_none(hook: object) -> RuntimeError:
    """A hook made a gradient out of none."""
    name = getattr(hook, "__name__", repr(hook))
    return RuntimeError(f"hook '{name}' cannot replace an undefined gradient (None) by a tensor.")


def unsupported(op: str, array: Any) -> NotImplementedError:
    """The error for a dtype that an operator has no meaning for."""
    dtype = from_numpy_dtype(array.dtype)
    return NotImplementedError(f"{op}: not defined for {dtype}; convert first, e.g. with .float().")
