"""The back ends of this package, one a module: its object `BACKEND` is registered at the first question."""
