"""The builtin operators that are refused, each with the reason."""

from ..registry import refuse

refuse(
    "its keys are strings or resources",
    "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "HASHTABLE_SIZE", "LSH_PROJECTION",
    "SKIP_GRAM",
)  # fmt: skip
refuse("it is random", "MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "STABLEHLO_RNG_BIT_GENERATOR")
refuse("its tensors are complex", "COMPLEX_ABS", "IMAG", "REAL", "RFFT2D")
refuse("it is not an operator of models", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")
refuse("LiteRT has no kernel for it", "CALL", "CONCAT_EMBEDDINGS", "STABLEHLO_CUSTOM_CALL")
