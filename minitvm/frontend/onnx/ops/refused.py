"""What is refused by name, with the reason."""

from __future__ import annotations

from ..registry import refuse

refuse("the shape of its output depends on the data", "NonZero", "Unique", "Compress", "NonMaxSuppression")
refuse(
    "it is random",
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
)  # fmt: skip
refuse("control flow over data is not supported", "Loop", "Scan")
refuse(
    "sequences, maps and optional values are not supported",
    "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
)  # fmt: skip
refuse(
    "strings are not supported",
    "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
)  # fmt: skip
refuse("complex numbers are not supported", "DFT", "STFT")
refuse("compressed pictures are not supported", "ImageDecoder")
