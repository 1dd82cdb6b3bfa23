"""Operators on blocked layouts and on packed words, as tensor expressions."""
