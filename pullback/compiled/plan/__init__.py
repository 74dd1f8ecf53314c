"""Which step makes which value, in what order and where it lies: the same for every machine."""
