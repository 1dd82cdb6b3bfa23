"""Write a compiled model as a program that needs no Python, in another language or for another machine."""

from .folders import fill, new_folder

__all__ = ["c", "fill", "new_folder", "wasm"]
