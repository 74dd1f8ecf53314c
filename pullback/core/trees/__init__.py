"""Nested containers of tensors: `pytree` takes them apart, `paths` and `text` describe them."""
