"""Write a compiled model as a program that needs no Python, in another language or for another machine."""

__all__ = ["c", "wasm"]
