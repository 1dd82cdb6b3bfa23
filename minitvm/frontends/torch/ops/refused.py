"""Operators that are refused by name, with the reason."""

from __future__ import annotations

from ..registry import refuse

refuse(
    "the shape of its output depends on the data",
    "nonzero_static", "unique_consecutive", "unique_dim", "_unique", "_unique2", "bincount",
    "repeat_interleave",
)  # fmt: skip
refuse("the program reads an element as a number", "_local_scalar_dense", "item")
refuse(
    "it is random",
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal_functional",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "uniform",
)  # fmt: skip
refuse("it is random\n  try:    module.eval() before the export", "native_dropout")
refuse(
    "it is of training\n  try:    module.eval() before the export",
    "_native_batch_norm_legit.default", "_native_batch_norm_legit_functional", "native_batch_norm",
)  # fmt: skip
refuse(
    "minitvm has no linear algebra (factorisations, inverses, eigenvalues)",
    "_linalg_det", "_linalg_eigh", "_linalg_eigvals", "_linalg_slogdet", "_linalg_solve_ex", "_linalg_svd", "cholesky",
    "cholesky_inverse", "cholesky_solve", "geqrf", "linalg_cholesky_ex", "linalg_eig", "linalg_eigh", "linalg_eigvals",
    "linalg_householder_product", "linalg_inv_ex", "linalg_ldl_factor_ex", "linalg_lstsq", "linalg_lu",
    "linalg_lu_factor_ex", "linalg_lu_solve", "linalg_matrix_exp", "linalg_matrix_rank", "linalg_pinv", "linalg_qr",
    "linalg_solve_triangular", "lu_unpack", "ormqr", "triangular_solve",
)  # fmt: skip
refuse("it changes the table when it runs\n  try:    max_norm=None", "embedding_renorm")
refuse("complex numbers are not supported", "_fft_c2c", "_fft_c2r", "_fft_r2c", "complex", "polar", "view_as_complex")
refuse(
    "it is of a derivative, and minitvm is for inference",
    "avg_pool2d_backward", "convolution_backward", "embedding_dense_backward", "native_group_norm_backward",
    "native_layer_norm_backward", "max_pool2d_with_indices_backward", "_adaptive_avg_pool2d_backward",
)  # fmt: skip
