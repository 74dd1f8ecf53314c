"""Ahead of time: joint graphs of forward and backward, cut in two, each given to a compiler."""
