"""Special functions: gamma, error function and Bessel with their kin, and polynomials."""
