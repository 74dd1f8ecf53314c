"""Operators: one declaration per operator, and what is built from it."""
