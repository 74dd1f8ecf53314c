"""From a root's gradient to the leaves' gradients."""
