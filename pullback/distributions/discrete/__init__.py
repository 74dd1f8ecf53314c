"""Families of whole numbers and of choices."""
