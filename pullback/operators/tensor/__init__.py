"""What a tensor says of itself, how it prints, converts, is filled, copied and pickled."""
