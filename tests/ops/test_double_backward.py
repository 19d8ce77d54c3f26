"""First and second derivatives of every differentiable op against central differences, in float64 on the device.

One program an op: it gives f, df.u, df.v and d(df.v).u at a point, and runs at x, x + e u and x - e u.
A public op that is neither in the table nor in EXCLUDED fails `test_every_op_is_listed`.
"""
from __future__ import annotations

import zlib

import numpy as np
import pytest

import lazy_tensor as lt
from lazy_tensor.ops import _define

F = lt.nn.functional
EPS = 1e-5


class P:
    """A differentiable leaf: values of `size`, by domain."""

    def __init__(self, *size, dom="real"):
        self.size, self.dom = size or (3, 4), dom

    def draw(self, rng):
        n = int(np.prod(self.size))
        # Magnitudes are spread evenly, then shuffled: no two lie near each other (ties, sorts), none near 0 (kinks).
        x = rng.permutation((np.arange(n) + rng.uniform(0.3, 0.7, n)) / n) * 0.8 + 0.1
        if self.dom == "real":
            x = x * rng.choice([-1.0, 1.0], n)
        elif self.dom == "big":  # above 1
            x = x + 1.2
        elif self.dom == "wide":
            x = x * rng.choice([-1.0, 1.0], n) * 3
        x = x.reshape(self.size)
        if self.dom == "spd":
            x = x @ np.swapaxes(x, -1, -2) + 2 * np.eye(self.size[-1]) * np.arange(1, self.size[-1] + 1)
        elif self.dom == "solid":  # far from singular, all singular values apart
            x = x + 2 * np.eye(*self.size[-2:]) * np.arange(1, self.size[-1] + 1)
        elif self.dom == "tril":
            x = np.tril(x) + 2 * np.eye(self.size[-1])
        return x


R, U, B = P(), P(dom="unit"), P(dom="big")  # (3, 4): signed, in (0.1, 0.9), above 1
M, V = P(3, 3), P(4)
S, A = P(3, 3, dom="spd"), P(3, 3, dom="solid")
BM = P(2, 3, 4)
IMG = P(1, 2, 5, 5)


def ints(*values, dtype=lt.int64):
    return lt.tensor(values[0] if len(values) == 1 else list(values), dtype=dtype, device="xla")


class Late:
    """An argument made when the test runs (constants on the device)."""

    def __init__(self, make):
        self.make = make


I = Late(lambda: ints(2, 0, 1))
MASK = Late(lambda: lt.tensor([[True, False, True, True], [False, True, True, False], [True, True, False, True]], device="xla"))


class Case:
    def __init__(self, args, kw, post, of):
        self.args, self.kw, self.post, self.of = args, kw, post, of


def c(*args, post=None, of=None, **kw):
    """A call: arguments (leaves among them, in lists too) and keywords; post picks or shapes what is differentiated, `of` wraps the op."""
    return Case(args, kw, post, of)


def sym(fn):
    """fn of the symmetric part of its first argument: the ops that read one triangle only."""
    return lambda x, *a, **k: fn((x + x.mT) / 2, *a, **k)


def seeded(fn, functional=False):
    """A dropout with half of its input kept, the same half at each call."""
    def run(x):
        lt.manual_seed(3)
        return fn(x, 0.5) if functional else fn(x, 0.5, True)
    return run


def first(out):
    return out[0]


def finite(out):
    """What is masked out gives -inf, which has no difference."""
    return lt.where(out.isinf(), 0.0, out)


def table():
    t = {}
    unary = ("abs acos asin arcsin atan arctan cos cosh deg2rad exp exp2 expm1 neg positive rad2deg sgn sin sinh square tan tanh sigmoid erf erfc erfinv "
             "i0 sinc asinh arcsinh atanh arctanh angle conj_physical special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.ndtr "
             "sign ceil floor trunc fix round frac nan_to_num relu hardshrink nn.functional.tanh nn.functional.sigmoid nn.functional.gelu "
             "nn.functional.logsigmoid nn.functional.softplus nn.functional.softshrink nn.functional.softsign nn.functional.tanhshrink nn.functional.celu celu "
             "nn.functional.elu nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh nn.functional.leaky_relu nn.functional.mish "
             "nn.functional.relu nn.functional.relu6 nn.functional.selu selu nn.functional.silu real conj resolve_conj resolve_neg clone "
             "sum mean nansum nanmean std var prod max min median nanmedian amax amin logdet_ norm linalg.norm linalg.vector_norm linalg.matrix_norm "
             "aminmax std_mean var_mean cov corrcoef ravel flatten t t_copy alias_copy adjoint fliplr flipud trace diag diagflat triu tril diag_embed "
             "diagonal linalg.diagonal squeeze squeeze_ unbind unbind_copy atleast_1d atleast_2d atleast_3d msort sort column_stack_ "
             "fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft fft.ihfft2 fft.ihfftn "
             "fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn nn.functional.pdist diff gradient trapz trapezoid cumulative_trapezoid "
             "rot90 fliplr linalg.svdvals nn.functional.glu nn.functional.normalize diagonal_copy")
    t |= {n: c(R) for n in unary.split() if not n.endswith("_")}
    t |= {n: c(U) for n in ("log log10 log1p log2 logit rsqrt sqrt reciprocal digamma lgamma special.entr special.ndtri").split()}
    t |= {n: c(B) for n in "acosh arccosh".split()}
    binary = ("add sub rsub mul arctan2 atan2 copysign hypot logaddexp logaddexp2 maximum minimum fmax fmin dist nn.functional.pairwise_distance inner "
              "cosine_similarity nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss linalg.vecdot vdot_ kron")
    t |= {n: c(R, P()) for n in binary.split() if not n.endswith("_")}
    t |= {n: c(R, B) for n in "div divide true_divide fmod remainder floor_divide".split()}
    t |= {n: c(U, P(dom="unit")) for n in "special.xlogy xlogy special.xlog1py pow float_power nn.functional.binary_cross_entropy".split()}
    t |= {n: c(0.7, B) for n in "igamma igammac".split()}
    t |= {
        "addcdiv": c(R, R, B, value=0.7), "addcmul": c(R, R, R, value=0.7), "clamp": c(R, -0.5, 0.5), "clamp_max": c(R, 0.3), "clamp_min": c(R, -0.3),
        "mvlgamma": c(B, 2), "polygamma": c(1, U), "special.polygamma": c(2, U), "special.zeta": c(2.5, B), "ldexp": c(R, P()), "lerp": c(R, P(), U),
        "igamma": c(Late(lambda: lt.full((3, 4), 0.7, dtype=lt.float64, device="xla")), B),
        "igammac": c(Late(lambda: lt.full((3, 4), 0.7, dtype=lt.float64, device="xla")), B),
        "round": c(R, decimals=1), "fill": c(R, P(1), of=lambda x, v: lt.fill(x, v[0])), "frexp": c(R, post=first),
        "where": c(MASK, R, P()), "complex": c(R, P()), "polar": c(U, P()), "view_as_complex": c(P(3, 2)),
        "imag": c(R, P()), "view_as_real": c(R, P()), "view_as_real_copy": c(R, P()), "view_as_complex_copy": c(P(3, 2)),
        # reductions, scans, order
        "logsumexp": c(R, 1), "kthvalue": c(R, 2, post=first), "mode": c(R, post=first), "renorm": c(R, 2.0, 0, 0.7), "nanquantile": c(R, 0.3),
        "quantile": c(R, 0.3), "cummax": c(R, 1, post=first), "cummin": c(R, 1, post=first), "cumprod": c(R, 1), "cumsum": c(R, 1), "logcumsumexp": c(R, 1),
        "sort": c(R, post=first), "topk": c(R, 2, post=first), "cdist": c(R, P(2, 4)), "histc": None,
        # products
        "addbmm": c(M, P(2, 3, 4), P(2, 4, 3), beta=0.5), "addmm": c(M, R, P(4, 3), alpha=0.5), "addmv": c(P(3), R, V), "addr": c(R, P(3), V),
        "baddbmm": c(P(2, 3, 3), BM, P(2, 4, 3)), "bmm": c(BM, P(2, 4, 3)), "dot": c(V, P(4)), "vdot": c(V, P(4)), "ger": c(P(3), V), "outer": c(P(3), V),
        "linalg.matmul": c(BM, P(4, 3)), "matmul": c(BM, P(4, 3)), "mm": c(R, P(4, 3)), "mv": c(R, V), "kron": c(P(2, 2), P(2, 2)),
        "chain_matmul": c(R, P(4, 3)), "einsum": c("ij,kj->ik", R, P(3, 4)), "linalg.multi_dot": c([R, P(4, 3), M]), "tensordot": c(R, P(4, 3), dims=1),
        "nn.functional.linear": c(R, P(2, 4), P(2)), "bilinear": c(R, P(3, 2), P(2, 4, 2), P(2)),
        "nn.functional.embedding": c(Late(lambda: ints(1, 0, 1)), R), "embedding": c(R, Late(lambda: ints(1, 0, 1))),
        "nn.functional.embedding_bag": c(Late(lambda: ints([[1, 0], [2, 2]])), R),
        "embedding_bag": c(R, Late(lambda: ints(1, 0, 2, 2)), Late(lambda: ints(0, 2)), post=first),
        # convolutions, pools, images
        "conv1d": c(P(1, 2, 5), P(2, 2, 2), P(2)), "conv2d": c(IMG, P(2, 2, 2, 2), P(2), padding=1), "conv3d": c(P(1, 1, 3, 3, 3), P(1, 1, 2, 2, 2)),
        "conv_tbc": c(P(4, 1, 2), P(2, 2, 2), P(2)), "conv_transpose1d": c(P(1, 2, 4), P(2, 1, 2), stride=2),
        "conv_transpose2d": c(P(1, 2, 3, 3), P(2, 1, 2, 2)), "conv_transpose3d": c(P(1, 1, 2, 2, 2), P(1, 1, 2, 2, 2)),
        "nn.functional.fold": c(P(1, 4, 4), (3, 3), 2), "nn.functional.unfold": c(P(1, 1, 3, 3), 2),
        "avg_pool1d": c(P(1, 2, 6), 2), "nn.functional.avg_pool2d": c(IMG, 2), "nn.functional.avg_pool3d": c(P(1, 1, 3, 3, 3), 2),
        "adaptive_avg_pool1d": c(P(1, 2, 6), 4), "nn.functional.adaptive_avg_pool2d": c(IMG, 3), "nn.functional.adaptive_avg_pool3d": c(P(1, 1, 3, 3, 3), 2),
        "nn.functional.lp_pool1d": c(P(1, 2, 6, dom="unit"), 2.0, 2), "nn.functional.lp_pool2d": c(P(1, 2, 4, 4, dom="unit"), 3.0, 2),
        "nn.functional.lp_pool3d": c(P(1, 1, 3, 3, 3, dom="unit"), 2.0, 2),
        "nn.functional.max_unpool1d": c(P(1, 1, 2), Late(lambda: ints([[[1, 2]]])), 2), "nn.functional.max_unpool2d":
        c(P(1, 1, 1, 2), Late(lambda: ints([[[[1, 7]]]])), 2), "nn.functional.max_unpool3d": c(P(1, 1, 1, 1, 2), Late(lambda: ints([[[[[1, 7]]]]])), 2),
        "nn.functional.interpolate": c(IMG, scale_factor=2, mode="bicubic"), "nn.functional.upsample": c(IMG, scale_factor=2),
        "nn.functional.upsample_bilinear": c(IMG, scale_factor=2), "nn.functional.upsample_nearest": c(IMG, scale_factor=2),
        "channel_shuffle": c(P(1, 4, 2, 2), 2), "nn.functional.channel_shuffle": c(P(1, 4, 2, 2), 2), "nn.functional.pixel_shuffle": c(P(1, 4, 2, 2), 2),
        "pixel_shuffle": c(P(1, 4, 2, 2), 2), "nn.functional.pixel_unshuffle": c(P(1, 1, 4, 4), 2), "pixel_unshuffle": c(P(1, 1, 4, 4), 2),
        "nn.functional.affine_grid": c(P(1, 2, 3), (1, 1, 3, 3)), "affine_grid_generator": c(P(1, 2, 3), (1, 1, 3, 3), False),
        "nn.functional.grid_sample": c(IMG, P(1, 3, 3, 2), align_corners=False), "grid_sampler": c(IMG, P(1, 3, 3, 2), 0, 0, False),
        "grid_sampler_2d": c(IMG, P(1, 3, 3, 2), 0, 0, False), "grid_sampler_3d": c(P(1, 1, 3, 3, 3), P(1, 2, 2, 2, 3), 0, 0, False),
        "nn.functional.pad": c(IMG, (1, 1, 2, 1), "reflect"), "constant_pad_nd": c(R, (1, 2), 0.5),
        # norms
        "batch_norm": c(P(4, 3), P(3), P(3), None, None, True, 0.1, 1e-5, False), "nn.functional.batch_norm": c(P(4, 3), None, None, P(3), P(3), True),
        "native_batch_norm": c(P(4, 3), P(3), P(3), None, None, True, 0.1, 1e-5, post=first),
        "group_norm": c(P(2, 4, 3), 2, P(4), P(4)), "nn.functional.group_norm": c(P(2, 4, 3), 2, P(4), P(4)),
        "native_group_norm": c(P(2, 4, 3), P(4), P(4), 2, 4, 3, 2, 1e-5, post=first),
        "instance_norm": c(P(2, 2, 4), P(2), P(2), None, None, True, 0.1, 1e-5, False), "nn.functional.instance_norm": c(P(2, 2, 4), weight=P(2), bias=P(2)),
        "layer_norm": c(R, (4,), V, P(4)), "nn.functional.layer_norm": c(R, (4,), V, P(4)), "native_layer_norm": c(R, (4,), V, P(4), 1e-5, post=first),
        "rms_norm": c(R, (4,), V), "nn.functional.rms_norm": c(R, (4,), V), "nn.functional.local_response_norm": c(IMG, 2, alpha=0.5),
        # linear algebra
        "cholesky": c(S, of=sym(lt.cholesky)), "linalg.cholesky": c(S, of=sym(lt.linalg.cholesky)),
        "linalg.cholesky_ex": c(S, of=sym(lt.linalg.cholesky_ex), post=first),
        "cholesky_inverse": c(P(3, 3, dom="tril"), of=lambda x: lt.cholesky_inverse(x.tril())),
        "cholesky_solve": c(P(3, 2), P(3, 3, dom="tril"), of=lambda b, x: lt.cholesky_solve(b, x.tril())),
        "det": c(A), "linalg.det": c(A), "logdet": c(S), "slogdet": c(A, post=lambda o: o[1]), "linalg.slogdet": c(A, post=lambda o: o[1]),
        "linalg.eigh": c(S, of=sym(lt.linalg.eigh), post=lambda o: (o[0], o[1].abs())), "linalg.eigvalsh": c(S, of=sym(lt.linalg.eigvalsh)),
        "linalg.eig": c(A, post=lambda o: (o[0], o[1].abs())), "linalg.eigvals": c(A),
        "linalg.svd": c(A, post=lambda o: (o[0].abs(), o[1], o[2].abs())), "svd": c(A, post=lambda o: (o[0].abs(), o[1], o[2].abs())), "linalg.svdvals": c(A),
        "linalg.qr": c(P(4, 3, dom="solid")), "qr": c(P(4, 3, dom="solid")), "linalg.lu": c(A, post=lambda o: o[1:]),
        "lu": c(A, post=first), "linalg.lu_factor": c(A, post=first), "linalg.lu_factor_ex": c(A, post=first),
        "lu_unpack": c(A, Late(lambda: ints(1, 2, 3, dtype=lt.int32)), post=lambda o: o[1:]),
        "lu_solve": c(P(3, 2), A, Late(lambda: ints(1, 2, 3, dtype=lt.int32))), "linalg.lu_solve": c(A, Late(lambda: ints(1, 3, 3, dtype=lt.int32)), P(3, 2)),
        "linalg.householder_product": c(P(4, 3), P(3)), "orgqr": c(P(4, 3), P(3)), "ormqr": c(P(3, 2), P(2), P(3, 2)),
        "linalg.inv": c(A), "inverse": c(A), "linalg.inv_ex": c(A, post=first), "linalg.pinv": c(P(4, 3, dom="solid")), "pinverse": c(P(4, 3, dom="solid")),
        "linalg.solve": c(A, P(3, 2)), "linalg.solve_ex": c(A, P(3, 2), post=first), "linalg.solve_triangular": c(A, P(3, 2), upper=True),
        "triangular_solve": c(P(3, 2), A, post=first), "linalg.lstsq": c(P(4, 3, dom="solid"), P(4, 2), post=first),
        "linalg.matrix_exp": c(M), "matrix_exp": c(M), "linalg.matrix_power": c(A, 3), "matrix_power": c(A, -2), "linalg.cond": c(A), "trace": c(M),
        "linalg.tensorinv": c(P(4, 2, 2, dom="unit"), of=lambda x: lt.linalg.tensorinv(x + 3 * lt.eye(4, dtype=x.dtype, device="xla").reshape(4, 2, 2), ind=1)),
        "linalg.tensorsolve": c(P(2, 2, 4, dom="unit"), P(2, 2),
                                of=lambda x, b: lt.linalg.tensorsolve(x + 3 * lt.eye(4, dtype=x.dtype, device="xla").reshape(2, 2, 4), b)),
        "linalg.vander": c(V, N=3), "vander": c(V, 3), "linalg.cross": c(M, P(3, 3)), "cross": c(M, P(3, 3), dim=1),
        "linalg.ldl_solve": None, "linalg.matrix_norm": c(A, "nuc"),
        # shapes, joins, indexing
        "cat": c([R, P(2, 4)]), "concat": c([R, P(2, 4)]), "concatenate": c([R, P(2, 4)]), "stack": c([R, P()], 1), "block_diag": c(R, M),
        "cartesian_prod": c(V, P(3)), "column_stack": c([R, P()]), "combinations": c(V), "dstack": c([R, P()]), "hstack": c([R, P()]), "vstack": c([R, P()]),
        "row_stack": c([R, P()]), "meshgrid": c(V, P(3), indexing="ij"), "broadcast_tensors": c(R, V), "broadcast_to": c(V, (3, 4)), "expand_copy": c(V, (3, 4)),
        "chunk": c(R, 2, 1), "unsafe_chunk": c(R, 2, 1), "split": c(R, 2), "unsafe_split": c(R, 2), "split_copy": c(R, 2), "split_with_sizes": c(R, [1, 2]),
        "unsafe_split_with_sizes": c(R, [1, 2]), "split_with_sizes_copy": c(R, [1, 2]), "tensor_split": c(R, 2), "dsplit": c(BM, 2), "hsplit": c(R, 2),
        "vsplit": c(P(4, 2), 2), "moveaxis": c(BM, 0, 2), "movedim": c(BM, 0, 2), "narrow": c(R, 1, 1, 2), "narrow_copy": c(R, 1, 1, 2),
        "permute": c(BM, (2, 0, 1)), "permute_copy": c(BM, (2, 0, 1)), "reshape": c(R, (4, 3)), "view_copy": c(R, (4, 3)), "select": c(R, 0, 1),
        "select_copy": c(R, 0, 1), "slice_copy": c(R, 1, 0, 3, 2), "squeeze": c(IMG), "squeeze_copy": c(IMG), "transpose_copy": c(R, 0, 1), "swapaxes": c(R, 0, 1),
        "swapdims": c(R, 0, 1), "transpose": c(R, 0, 1), "unflatten": c(R, 1, (2, 2)), "unfold_copy": c(R, 1, 2, 1), "unsqueeze": c(R, 1),
        "unsqueeze_copy": c(R, 1), "as_strided": c(R, (2, 3), (4, 1)), "as_strided_copy": c(R, (2, 3), (4, 1)), "as_strided_scatter": c(R, P(2, 3), (2, 3), (4, 1)),
        "diagonal_scatter": c(R, P(3)), "select_scatter": c(R, V, 0, 1), "slice_scatter": c(R, P(3, 2), 1, 0, 4, 2), "flip": c(R, (0, 1)), "roll": c(R, 1, 0),
        "rot90": c(R), "tile": c(R, (2, 1)), "repeat_interleave": c(R, 2, 1), "diag_embed": c(R, 1),
        "gather": c(R, 1, Late(lambda: ints([[0, 0], [1, 3], [2, 2]]))), "take_along_dim": c(R, Late(lambda: ints([[0, 0], [1, 3], [2, 2]])), 1),
        "index_add": c(R, 0, I, P()), "index_copy": c(R, 0, I, P()), "index_reduce": c(R, 0, Late(lambda: ints(0, 0, 1)), P(), "prod"),
        "index_select": c(R, 0, I), "index_fill": c(R, 0, Late(lambda: ints(1)), 0.5), "index_put": c(R, (I,), P(), True), "masked_fill": c(R, MASK, 0.5),
        "masked_scatter": c(R, MASK, P()), "put": c(R, Late(lambda: ints(1, 5)), P(2)), "take": c(R, Late(lambda: ints(1, 5, 5))),
        "scatter": c(R, 1, Late(lambda: ints([[0], [1], [3]])), P(3, 1)), "scatter_add": c(R, 1, Late(lambda: ints([[0, 0], [1, 3], [2, 2]])), P(3, 2)),
        "scatter_reduce": c(R, 1, Late(lambda: ints([[0, 0], [1, 3], [2, 2]])), P(3, 2), "prod"), "masked_select": c(R, MASK),
        # activations, attention, recurrence
        "log_softmax": c(R, 1), "nn.functional.log_softmax": c(R, 1), "softmax": c(R, 1), "nn.functional.softmax": c(R, 1), "nn.functional.softmin": c(R, 1),
        "special.log_softmax": c(R, 1), "special.softmax": c(R, 1), "threshold": c(R, 0.2, 0.1), "nn.functional.threshold": c(R, 0.2, 0.1),
        "nn.functional.prelu": c(R, P(1)), "prelu": c(R, P(1)), "rrelu": c(R, training=False), "nn.functional.rrelu": c(R, training=False),
        "nn.functional.scaled_dot_product_attention": c(P(1, 2, 3, 4), P(1, 2, 3, 4), P(1, 2, 3, 4), is_causal=True),
        "nn.functional.multi_head_attention_forward": c(P(3, 1, 4), P(3, 1, 4), P(3, 1, 4), 4, 2, P(12, 4), P(12), None, None, False, 0.0, P(4, 4), V, post=first),
        "gru_cell": c(P(2, 3), P(2, 2), P(6, 3), P(6, 2), P(6), P(6)), "lstm_cell": c(P(2, 3), [P(2, 2), P(2, 2)], P(8, 3), P(8, 2), P(8), P(8)),
        "rnn_relu_cell": c(P(2, 3), P(2, 2), P(2, 3), P(2, 2)), "rnn_tanh_cell": c(P(2, 3), P(2, 2), P(2, 3), P(2, 2)),
        "gru": c(P(3, 2, 3), P(1, 2, 2), [P(6, 3), P(6, 2)], False, 1, 0.0, False, False, False),
        "lstm": c(P(3, 2, 3), [P(1, 2, 2), P(1, 2, 2)], [P(8, 3), P(8, 2)], False, 1, 0.0, False, False, False),
        "rnn_tanh": c(P(3, 2, 3), P(1, 2, 2), [P(2, 3), P(2, 2)], False, 1, 0.0, False, False, False),
        "rnn_relu": c(P(3, 2, 3), P(1, 2, 2), [P(2, 3), P(2, 2)], False, 1, 0.0, False, False, False),
        # losses
        "nn.functional.binary_cross_entropy_with_logits": c(R, U), "nn.functional.cross_entropy": c(R, I), "nn.functional.nll_loss": c(R, I),
        "nn.functional.kl_div": c(R, U, reduction="sum"), "nn.functional.gaussian_nll_loss": c(R, P(), B), "nn.functional.poisson_nll_loss": c(R, U),
        "nn.functional.soft_margin_loss": c(R, P()), "nn.functional.multi_margin_loss": c(R, I), "nn.functional.multilabel_soft_margin_loss": c(R, U),
        "nn.functional.multilabel_margin_loss": c(R, Late(lambda: ints([[0, 1, -1, 0], [2, -1, 0, 0], [3, 1, 0, -1]]))),
        "nn.functional.cosine_embedding_loss": c(R, P(), Late(lambda: ints(1, -1, 1))), "nn.functional.hinge_embedding_loss":
        c(R, Late(lambda: ints([[1, -1, 1, 1], [-1, 1, 1, -1], [1, 1, -1, 1]]))), "nn.functional.margin_ranking_loss": c(P(3), P(3), Late(lambda: ints(1, -1, 1))),
        "nn.functional.triplet_margin_loss": c(R, P(), P()), "nn.functional.triplet_margin_with_distance_loss": c(R, P(), P()),
        "nn.functional.linear_cross_entropy": c(R, P(5, 4), I),
        "nn.functional.ctc_loss": c(P(5, 2, 4), Late(lambda: ints([[1, 2], [3, 1]])), (5, 4), (2, 1),
                                    of=lambda x, *a: F.ctc_loss(lt.log_softmax(x, 2), *a)),
        "stft": c(P(16), 8, 4, return_complex=True), "istft": c(P(5, 5), P(5, 5), of=lambda re, im: lt.istft(lt.complex(re, im), 8, 4)),
    }
    t |= {f"masked.{n}": c(R, dim=1, mask=MASK) for n in "amax amin mean median prod std sum var logsumexp".split()}
    t |= {f"masked.{n}": c(R, 1, mask=MASK) for n in "cumprod cumsum softmax softmin".split()}
    t |= {"masked.norm": c(R, 2.0, 1, mask=MASK), "masked.normalize": c(R, 2.0, 1, mask=MASK), "masked.log_softmax": c(R, 1, mask=MASK, post=finite),
          "masked.logaddexp": c(R, P(), input_mask=MASK, other_mask=MASK, post=finite)}
    image = {1: P(1, 1, 6), 2: P(1, 1, 4, 4), 3: P(1, 1, 2, 4, 4)}
    for d in (1, 2, 3):
        for tail in ("", "_with_indices"):
            t[f"nn.functional.max_pool{d}d{tail}"] = c(image[d], 2, post=first if tail else None)
            t[f"nn.functional.adaptive_max_pool{d}d{tail}"] = c(image[d], 2, post=first if tail else None)
            if d > 1:
                t[f"nn.functional.fractional_max_pool{d}d{tail}"] = c(
                    image[d], 1 if d == 3 else 2, output_size=2, post=first if tail else None,
                    _random_samples=Late(lambda d=d: lt.full((1, 1, d), 0.4, dtype=lt.float64, device="xla")))
    t |= {"max_pool1d": c(image[1], 2), "max_pool1d_with_indices": c(image[1], 2, post=first), "max_pool2d": c(image[2], 2), "max_pool3d": c(image[3], 2)}
    for n in ("alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout", "native_dropout"):
        t[n] = c(IMG, of=seeded(getattr(lt, n)), post=first if n == "native_dropout" else None)
    for n in ("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"):
        t[f"nn.functional.{n}"] = c(P(1, 2, 5) if n == "dropout1d" else P(1, 2, 2, 3, 3) if n == "dropout3d" else IMG, of=seeded(getattr(F, n), True))
    t["nn.functional.gumbel_softmax"] = c(R, of=lambda x: (lt.manual_seed(3), F.gumbel_softmax(x))[1])
    t["adaptive_max_pool1d"] = c(image[1], 2, post=first)
    for n in ("imag", "view_as_real", "view_as_real_copy"):
        t[n] = c(R, P(), of=lambda a, b, n=n: getattr(lt, n)(lt.complex(a, b)))
    return {n: case for n, case in t.items() if case is not None}


TABLE = table()


def excluded():
    """Public ops without a row -> why."""
    out = {}

    def put(why, names):
        out.update(dict.fromkeys(names.split(), why))

    put("integers or bools come out", "all any allclose argsort argwhere broadcast_shapes bucketize count_nonzero eq equal ge gt greater greater_equal le less "
        "less_equal lt ne not_equal isclose isfinite isin isinf isnan isneginf isposinf isreal is_complex is_conj is_floating_point is_neg is_nonzero "
        "is_same_size is_signed linalg.matrix_rank logical_and logical_not logical_or logical_xor masked.argmax masked.argmin nonzero nonzero_static numel "
        "result_type searchsorted signbit")
    put("integers go in", "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor gcd lcm nn.functional.one_hot unravel_index "
        "broadcast_shapes tril_indices triu_indices")
    put("counts", "bincount histc histogram histogramdd")
    put("a step function, with no derivative in torch either", "nextafter heaviside")
    put("gives constants", "fft.fftfreq fft.rfftfreq bartlett_window blackman_window hamming_window hann_window kaiser_window detach detach_copy")
    put("nn.functional's loss, its reduction a number", "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss hinge_embedding_loss kl_div "
        "margin_ranking_loss poisson_nll_loss triplet_margin_loss")
    put("a norm over some dimensions: the norms' rows", "norm_except_dim")
    put("numbers of Python", "get_device sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum")
    put("its number of results depends on the values; no derivative in torch", "unique unique_consecutive")
    put("torch has no derivative of it", "linalg.ldl_factor linalg.ldl_factor_ex")
    put("torch differentiates B alone, linearly; tests/ops/test_special.py", "linalg.ldl_solve")
    return out


EXCLUDED = excluded()
FAMILIES = {"foreach": "lists of the plain ops", "random": "draws (test_random_fills.py)", "creation": "gives constants"}


def public():
    """One path for each function that can have a gradient."""
    out = {}
    for path in sorted(_define._public, key=lambda p: (p not in TABLE and p not in EXCLUDED, p)):
        fn = _define._public[path]
        op = getattr(fn, "__wrapped_op__", None)
        if path.endswith("_") or isinstance(fn, type) or op is not None and op.differentiable is False:
            continue
        if getattr(fn, "__module__", "").split(".")[-1] in FAMILIES or path.startswith("signal.windows."):
            continue
        out.setdefault(id(fn), path)
    return list(out.values())


def test_every_op_is_listed():
    paths = public()
    assert not [p for p in paths if p not in TABLE and p not in EXCLUDED], "these need a row in table(), or a reason in excluded()"
    assert not set(TABLE) & set(EXCLUDED)
    assert not [p for p in [*TABLE, *EXCLUDED] if p not in _define._public], "no such ops"


def find(path):
    fn = lt
    for part in path.split("."):
        fn = getattr(fn, part)
    return fn


def fill(arg, leaves):
    """An argument with its leaves drawn (kept in leaves) and its late ones made."""
    if isinstance(arg, P):
        leaves.append(arg)
        return arg
    if isinstance(arg, Late):
        return arg.make()
    if isinstance(arg, (list, tuple)):
        return type(arg)(fill(a, leaves) for a in arg)
    return arg


def put(arg, values):
    """The argument with its leaves, in order, given by the iterator values."""
    if isinstance(arg, P):
        return next(values)
    if isinstance(arg, (list, tuple)):
        return type(arg)(put(a, values) for a in arg)
    return arg


def outputs(out):
    for o in out if isinstance(out, (list, tuple)) else (out,):
        if isinstance(o, (list, tuple)):
            yield from outputs(o)
        elif o.is_complex():
            yield lt.view_as_real(o)
        elif o.is_floating_point():
            yield o


def on_device(a):
    return lt.tensor(a, dtype=lt.float64, device="xla")


@pytest.mark.filterwarnings("ignore:.*upsample.* is deprecated")
@pytest.mark.parametrize("path", [p for p in public() if p in TABLE])
def test_derivatives(path):
    case, leaves = TABLE[path], []
    args = fill(case.args, leaves)
    kw = {k: fill(a, leaves) for k, a in case.kw.items()}
    rng = np.random.default_rng(zlib.crc32(path.encode()))
    at, u, v = ([p.draw(rng) for p in leaves], [rng.standard_normal(p.size) for p in leaves], [rng.standard_normal(p.size) for p in leaves])
    fn, weights = case.of or find(path), {}

    def along(grads, direction):
        parts = [(g * d).sum() for g, d in zip(grads, direction, strict=True) if g is not None]
        return sum(parts[1:], parts[0]) if parts else None

    def run(shift):
        """f, df.u, df.v, d(df.v).u at the point moved by shift along u; a derivative that is not on the tape counts as 0."""
        x = [on_device(a + shift * d).requires_grad_() for a, d in zip(at, u, strict=True)]
        values = iter(x)
        out = fn(*put(args, values), **{k: put(a, values) for k, a in kw.items()})
        f = 0.0
        for i, o in enumerate(outputs(case.post(out) if case.post else out)):
            if i not in weights:
                weights[i] = on_device(rng.uniform(0.5, 1.5, tuple(o.shape)))
            f = f + (o * weights[i]).sum()
        assert f.requires_grad, "no output is on the tape"
        ud, vd = ([on_device(d) for d in ds] for ds in (u, v))
        grads = lt.autograd.grad(f, x, create_graph=True, allow_unused=True)
        du, dv = along(grads, ud), along(grads, vd)
        second = along(lt.autograd.grad(dv, x, allow_unused=True), ud) if dv is not None and dv.requires_grad else None
        zero = lt.zeros((), dtype=lt.float64, device="xla")
        return lt.stack([f.detach(), *(zero if d is None else d.detach() for d in (du, dv, second))]).cpu().numpy()

    here, up, down = run(0.0), run(EPS), run(-EPS)
    slope = (up - down) / (2 * EPS)
    assert np.isfinite(here).all()
    scale = 1 + max(np.abs(here).max(), np.abs(slope[[0, 2]]).max())
    assert here[1] == pytest.approx(slope[0], rel=1e-5, abs=1e-7 * scale), "first derivative"
    assert here[3] == pytest.approx(slope[2], rel=1e-5, abs=1e-7 * scale), "second derivative"
