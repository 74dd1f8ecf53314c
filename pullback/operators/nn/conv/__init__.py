"""Convolutions: arguments in `functions`, declarations in `operators`, arithmetic in `kernels`."""
