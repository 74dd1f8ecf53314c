"""Fourier transforms, short-time ones, and the windows for them."""
