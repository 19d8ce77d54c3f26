"""Which ops autocast casts to the low dtype, and which to float32: torch's lists for cpu and for CUDA (ours for XLA devices).

An op in neither list of a device runs in the dtypes it is given.
"""
from __future__ import annotations

_PRODUCTS = """linear matmul mm bmm addmm addbmm baddbmm vecdot conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d scaled_dot_product_attention prelu einsum multi_dot chain_matmul inner tensordot matrix_power affine_grid
    rnn_tanh_cell rnn_relu_cell"""
_LOSSES = """nll_loss cross_entropy mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits poisson_nll_loss
    cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
    multi_margin_loss cdist prod"""

LOW = {
    "cpu": frozenset(f"{_PRODUCTS} lstm gru rnn".split()),
    "xla": frozenset(f"{_PRODUCTS} mv addmv addr lstm gru rnn lstm_cell gru_cell".split()),
}
HIGH = {
    "cpu": frozenset(f"""{_LOSSES} binary_cross_entropy ctc_loss avg_pool3d max_pool3d max_pool3d_with_indices max_unpool
        adaptive_avg_pool3d adaptive_max_pool3d adaptive_max_pool3d_with_indices fractional_max_pool2d fractional_max_pool3d grid_sample pad_mode
        local_response_norm polar view_as_complex quantile nanquantile stft
        cholesky cholesky_ex cholesky_inverse cholesky_solve eig eigh eigvals eigvalsh geqrf householder_product inv inv_ex ldl_factor
        lstsq lu lu_factor lu_solve matrix_rank ormqr pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv tensorsolve
        triangular_solve cond orgqr det logdet
        fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftn""".split()),
    "xla": frozenset(f"""{_LOSSES} softmax log_softmax softmin layer_norm group_norm norm vector_norm matrix_norm pdist cumsum cumprod
        renorm exp expm1 log log10 log1p log2 pow rsqrt reciprocal erfinv acos asin cosh sinh tan sum logsumexp softplus
        cosine_similarity dist""".split()),
}


def casts(name: str) -> dict[str, str] | None:
    """device kind -> "low" or "high" for an op's name; None for an op that autocast leaves alone."""
    out = {kind: "low" if name in LOW[kind] else "high" for kind in LOW if name in LOW[kind] or name in HIGH[kind]}
    return out or None
