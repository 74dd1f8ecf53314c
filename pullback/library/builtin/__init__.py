"""The built-in operators under torch's names: overloads, schemas, other spellings."""
