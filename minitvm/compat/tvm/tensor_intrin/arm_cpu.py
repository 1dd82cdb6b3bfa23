"""TVM's names for its products of bytes on ARM; see `dot_products`."""

from .dot_products import rows_by_vector

ARM_DOT_4x4_i8_NEON_INTRIN = "dot_4x4_i8i8s32_neon"
ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_sdot"
ARM_DOT_4x4_u8_UDOT_INTRIN = "dot_4x4_u8u8u32_udot"
ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8i32_hdot"
neon_4x4_i8i8i32_desc = rows_by_vector(4, 4, "int8", "int8", "int32")
