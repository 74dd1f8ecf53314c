"""Norm layers: public functions in `layers`, the declarations under them in `standardise`."""
