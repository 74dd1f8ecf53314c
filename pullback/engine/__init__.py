"""Core to study: from a root's gradient to the leaves' gradients."""
