"""`pullback check`: which of torch's names a program uses, and which of them are here."""
