"""Streams, files and checks of the data pipes."""
