"""Sizes that vary: a capture made to serve calls of other sizes."""
