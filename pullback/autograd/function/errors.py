"""What users of custom Functions can be told when something is wrong, a function each."""

from __future__ import annotations

from typing import Any


def _kind(value: object) -> str:
    return type(value).__name__


# Declaring and calling ----------------------------------------------------------------------------


def no_forward(function: str) -> NotImplementedError:
    """A Function without forward was applied."""
    return NotImplementedError(
        f"{function} has no forward. Give it a static method `forward(ctx, ...)`, or "
        "`forward(...)` together with `setup_context(ctx, inputs, output)`."
    )


def no_backward(function: str) -> NotImplementedError:
    """A gradient arrived at a Function without backward."""
    return NotImplementedError(
        f"{function} has no backward, and a gradient arrived at it. Give it a static method "
        "`backward(ctx, *gradients)` (or `vjp`, its other name) that returns one gradient for each "
        "argument of forward."
    )


def backward_and_vjp(function: str) -> RuntimeError:
    """Two definitions of the same thing."""
    return RuntimeError(
        f"{function} defines both backward and vjp, which are two names of one method. Keep one."
    )


def no_setup_context(function: str) -> NotImplementedError:
    """The default was called."""
    return NotImplementedError(
        f"{function} has no setup_context(ctx, inputs, output); then forward takes ctx itself."
    )


def no_jvp(function: str) -> NotImplementedError:
    """An argument carries a tangent."""
    return NotImplementedError(
        f"{function} has no jvp, and an argument of it carries a tangent. Give it a static method "
        "`jvp(ctx, *tangents)` that returns one tangent for each output."
    )


def first_derivatives_only(function: str) -> NotImplementedError:
    """An argument carries second derivatives, which are no tangent."""
    return NotImplementedError(
        f"{function} is a custom Function, whose jvp gives first derivatives; func.laplacian "
        "needs second ones. Write it with operators, or use func.jet or nested func.jvp, which "
        "take its jvp."
    )


def shares_with_series(function: str) -> NotImplementedError:
    """A result is an argument that was written to, or a view of one, inside func.jet."""
    return NotImplementedError(
        f"{function} returns an argument that it wrote to, or a view of one; func.jet takes custom "
        "Functions whose results have memory of their own. Return a copy."
    )


def no_vmap(function: str) -> NotImplementedError:
    """The default was called."""
    return NotImplementedError(
        f"{function} has no vmap(info, in_dims, *args). Define it, or set generate_vmap_rule."
    )


def needs_setup_context(function: str) -> RuntimeError:
    """Function transforms call forward and the bookkeeping apart."""
    return RuntimeError(
        f"{function} takes ctx in forward, and function transforms (func.grad, vmap, jvp, ...) "
        "cannot run that. Write `forward(*args)` without ctx, and move what uses ctx to a static "
        "method `setup_context(ctx, inputs, output)`."
    )


def old_style(function: str) -> RuntimeError:
    """An instance was called, as long ago."""
    return RuntimeError(
        f"{function} is called through an instance, the old non-static style. Make forward and "
        f"backward static methods with ctx as their first argument, and call {function}.apply(...)."
    )


def argument_twice(name: str) -> TypeError:
    """By position and by keyword."""
    return TypeError(f"forward() got two values for argument {name!r}: by position and by keyword.")


def unknown_argument(function: str, name: str, known: list[str]) -> TypeError:
    """A keyword that is no parameter which could be given by position as well."""
    return TypeError(
        f"{function}.apply: forward() has no positional parameter {name!r}; it has {known}. "
        "Keyword-only parameters and **kwargs cannot be used: every argument has its gradient by "
        "position."
    )


def argument_gap(function: str, name: str, position: int) -> TypeError:
    """Keywords that leave out a parameter before them."""
    return TypeError(
        f"{function}.apply: argument {name!r} (position {position}) of forward() is left out, but "
        "a later one is given. Pass it too: backward returns gradients by position."
    )


# ctx ----------------------------------------------------------------------------------------------


def not_a_bool(what: str, value: object) -> TypeError:
    """A switch was set to something else."""
    return TypeError(f"{what} must be True or False, got {_kind(value)}.")


def staging_not_tuple(name: str, value: object) -> RuntimeError:
    """`ctx.to_save = [...]` and the like."""
    return RuntimeError(f"ctx.{name} must be a tuple of tensors, got {_kind(value)}.")


def saves_non_tensor(index: int, value: object) -> TypeError:
    """save_for_backward(3)."""
    return TypeError(
        f"save_for_backward takes tensors and None, but argument {index} is a {_kind(value)}. "
        "Store other values as attributes: `ctx.value = ...`."
    )


def marks_non_tensor(method: str, index: int, value: object) -> RuntimeError:
    """mark_dirty(3)."""
    return RuntimeError(f"{method} takes tensors, but argument {index} is a {_kind(value)}.")


def cleared_on_access(node: str) -> RuntimeError:
    """saved_tensors was read twice."""
    return RuntimeError(
        f"{node}: ctx.saved_tensors was read before, and clear_saved_tensors_on_access = True "
        "hands the tensors over at the first read. Read it once and keep the tuple, or set the "
        "class flag clear_saved_tensors_on_access to False."
    )


def dirty_not_returned(function: str, count: int) -> RuntimeError:
    """mark_dirty without return."""
    return RuntimeError(
        f"{function}: {count} tensor(s) given to mark_dirty were not returned by forward. Return "
        "every input that forward changes in place; its history leads through this function."
    )


def dirty_view_not_input(function: str, number: int) -> RuntimeError:
    """mark_dirty on a view made inside forward."""
    return RuntimeError(
        f"{function}: output {number} was given to mark_dirty, but it is no input: it is a view "
        "made in forward. Mark (and return) the input itself."
    )


def dirty_leaf(function: str) -> RuntimeError:
    """In-place on a leaf; by now its data has changed."""
    return RuntimeError(
        f"{function}: a leaf tensor that requires grad was changed in place and given to "
        "mark_dirty; its gradient is accumulated for the value it had. Pass a clone, or call it "
        "under torch.no_grad()."
    )


def dirty_view_with_others(function: str, count: int) -> RuntimeError:
    """A changed view and other results."""
    return RuntimeError(
        f"{function} changed a view in place and returned {count} values. The history of the "
        "view's base can only follow a function of one result: clone the view before the call, or "
        "split the function in two."
    )


def returned_and_saved(function: str) -> RuntimeError:
    """Split style: which of the two objects would be saved is unclear."""
    return RuntimeError(
        f"{function} returns an input as it is and saves the same object in setup_context, which "
        "would lose the history of one of them. Return `x.view_as(x)` from forward, or take ctx in "
        "forward instead of setup_context."
    )


def pure_view_shape(function: str, inputs: int, outputs: int) -> RuntimeError:
    """`_is_pure_view` with more than one tensor on a side."""
    return RuntimeError(
        f"{function} sets ctx._is_pure_view, which is for one tensor argument and one result; it "
        f"has {inputs} and {outputs}."
    )


# What backward returned ---------------------------------------------------------------------------


def gradient_count(node: str, expected: int, returned: Any) -> RuntimeError:
    """Not one gradient per argument."""
    got = len(returned) if isinstance(returned, tuple) else 1
    hint = " Return a tuple, not a list." if isinstance(returned, list) else ""
    return RuntimeError(
        f"{node}: backward must return one gradient for each argument of forward, None where there "
        f"is none: expected {expected}, got {got}.{hint}"
    )


def gradient_for_non_tensor(node: str, position: int) -> RuntimeError:
    """A gradient where forward got a number."""
    return RuntimeError(
        f"{node}: backward returned a gradient at position {position}, but that argument of "
        "forward was not a tensor. Return None there."
    )


def gradient_type(node: str, position: int, value: object) -> RuntimeError:
    """A number, an array or a list as gradient."""
    return RuntimeError(
        f"{node}: backward returned a {_kind(value)} at position {position}; each gradient must be "
        "a Tensor or None."
    )


# What jvp returned --------------------------------------------------------------------------------


def tangent_count(function: str, expected: int, got: int) -> RuntimeError:
    """Not one tangent per result."""
    return RuntimeError(
        f"{function}: jvp must return exactly one value for each result of forward: expected "
        f"{expected}, got {got}."
    )


def tangent_type(function: str, number: int, value: object) -> RuntimeError:
    """A number, an array or a list as tangent."""
    return RuntimeError(
        f"{function}: jvp returned a {_kind(value)} at index {number}; a tangent must be a Tensor "
        "or None."
    )


def tangent_for_constant(function: str, number: int) -> RuntimeError:
    """A tangent for an output that has none."""
    return RuntimeError(
        f"{function}: jvp returned a tangent at position {number}, but that result of forward "
        "carries no gradient (it is no floating point tensor, or was marked non-differentiable). "
        "Return None there."
    )


def tangent_missing(function: str, number: int) -> RuntimeError:
    """None for a differentiable output."""
    return RuntimeError(
        f"{function}: jvp returned None at position {number}, but that result of forward is "
        "differentiable. Return its tangent, zeros if need be."
    )


def tangent_shape(
    function: str, number: int, got: tuple[int, ...], expected: tuple[int, ...]
) -> RuntimeError:
    """A tangent of another size than its output."""
    return RuntimeError(
        f"{function}: jvp returned a tangent of shape {tuple(got)} at position {number}, but that "
        f"result of forward has shape {tuple(expected)}; they must be equal."
    )


def tangent_not_written(function: str) -> RuntimeError:
    """An in-place function whose jvp is not."""
    return RuntimeError(
        f"{function} changes an argument in place, but its jvp did not modify that argument's "
        "tangent in place. Change the tangent in place and return it."
    )


def tangent_not_returned(function: str) -> RuntimeError:
    """An in-place function whose jvp returns another tensor."""
    return RuntimeError(
        f"{function} changes an argument in place, but its jvp did not return that argument's "
        "tangent as is. Change the given tangent in place and return the same object."
    )


def tangent_not_view(function: str, number: int) -> RuntimeError:
    """A view whose tangent is a copy."""
    return RuntimeError(
        f"{function}: result {number} is a view of an argument (or that argument as it is), but "
        "the tangent that jvp returned is not a view. Return a view of the argument's tangent, "
        "e.g. `t.view_as(t)`."
    )


def tangent_other_view(function: str, number: int) -> RuntimeError:
    """A view whose tangent is a view of something else."""
    return RuntimeError(
        f"{function}: result {number} is a view of an argument, but the tangent that jvp returned "
        "is a view of something else. Return a view of that argument's tangent."
    )


# vmap ---------------------------------------------------------------------------------------------


def no_vmap_rule(function: str) -> RuntimeError:
    """Neither way to batch."""
    return RuntimeError(
        f"{function} cannot be used under vmap: it has no rule for batches. Set "
        "`generate_vmap_rule = True` on the class if forward, setup_context, backward and jvp are "
        "made of operators, or define a static method `vmap(info, in_dims, *args)`."
    )


def two_vmap_rules(function: str) -> RuntimeError:
    """Both ways to batch."""
    return RuntimeError(
        f"{function} has a vmap staticmethod and generate_vmap_rule = True; keep one, so that it "
        "is clear which rule is meant."
    )


def vmap_returned(function: str, what: str) -> RuntimeError:
    """Not (output, out_dims)."""
    return RuntimeError(
        f"{function}.vmap must return a tuple of two, (output, out_dims), but returned {what}."
    )


def keyword_in_transform(name: str, argument: str) -> NotImplementedError:
    """A keyword-only argument, inside a function transform."""
    return NotImplementedError(
        f"{name}.apply: argument `{argument}` can be given by keyword only, which function "
        "transforms do not take. Give it by position, or outside of transforms."
    )


def out_dims_mismatch(function: str, dims: object, output: Any) -> RuntimeError:
    """out_dims does not follow output."""
    count = f"{len(output)} values" if isinstance(output, tuple | list) else f"a {_kind(output)}"
    return RuntimeError(
        f"{function}.vmap returned out_dims {dims!r} for {count}; it must have the structure of "
        "the output: one int or None for each value, or a single one for all."
    )


def dirty_under_vmap(function: str) -> RuntimeError:
    """mark_dirty and a generated rule."""
    return RuntimeError(
        f"{function}: mark_dirty does not work with generate_vmap_rule = True. Write the vmap "
        "staticmethod, or do not change inputs in place."
    )
