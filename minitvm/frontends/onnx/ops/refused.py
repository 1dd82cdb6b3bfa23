"""Operators that are refused by name, with the reason."""

from __future__ import annotations

from ..registry import RANDOM, refuse

refuse(
    RANDOM,
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
)  # fmt: skip
refuse("maps and optional values are not supported", "Optional")
refuse(
    "strings are not supported",
    "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
)  # fmt: skip
refuse("compressed pictures are not supported", "ImageDecoder")
