"""The oracle: one interpreter a level, written to be read, sharing nothing but node definitions with what it judges."""
