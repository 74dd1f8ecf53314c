"""Families of single numbers on an interval, a half-line or the line."""
