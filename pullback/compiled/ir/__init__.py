"""A small array language: values, how they are built, and which of them live."""
