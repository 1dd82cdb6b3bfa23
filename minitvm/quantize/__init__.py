"""Quantisation: a network of floats as one of bytes or bfloat16, calibrated on samples."""

from __future__ import annotations

from .quantization import quantize

__all__ = ["quantize"]
