"""Cuts forward and backward, captured together, in two: what is kept, and what is made again."""
