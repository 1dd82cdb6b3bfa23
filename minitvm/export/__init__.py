"""Write a compiled model as a program that needs no Python, in another language or for another machine."""

from .folders import new_folder

__all__ = ["c", "new_folder", "wasm"]
