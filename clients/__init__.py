"""Libraries written for torch, each with a program of its documented use: `python -m clients`."""
