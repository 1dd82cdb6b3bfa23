"""TVM's names for its products of bytes on x86; see `dot_products`."""

from .dot_products import rows_by_vector

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"
dot_product_16x4_u8i8i32_desc = rows_by_vector(16, 4, "uint8", "int8", "int32")
