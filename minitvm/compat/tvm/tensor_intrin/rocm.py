"""TVM's name for the product of four bytes on AMD's GPUs; see `dot_products`."""

from .dot_product_common import dp4a_desc

__all__ = ["AMDGPU_SDOT4_INTRIN", "dp4a_desc"]

AMDGPU_SDOT4_INTRIN = "sdot4"
