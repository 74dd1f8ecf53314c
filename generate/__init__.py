"""Writes what must be known before a family of operators is loaded: tables of names, and types.

    make generate        or        python -m generate

Read from the declarations and from the families' `FOUND_IN`; written into
`pullback/operators/attach/names.py` and the stubs (`*.pyi`) beside the public modules. A test holds
the files against the declarations.
"""
