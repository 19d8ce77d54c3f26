"""Losses, norms and number helpers under torch's own top-level names: losses take the reduction as a number (0 none, 1 mean, 2 sum)."""
from __future__ import annotations

import builtins
import math

from lazy_tensor.ops import ctc, loss, metric
from lazy_tensor.ops._common import check
from lazy_tensor.ops._define import composite


def _word(name, reduction):
    words = {0: "none", 1: "mean", 2: "sum"}
    check(reduction in words, f"{name}: reduction {reduction!r}; 0 (none), 1 (mean) and 2 (sum) are the numbers that fit "
                              f"(torch.nn.functional.{name} takes the words)", ValueError)
    return words[reduction]


@composite
def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1):
    """nn.functional.binary_cross_entropy_with_logits, the reduction a number."""
    return loss.binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight,
                                                 reduction=_word("binary_cross_entropy_with_logits", reduction))


@composite
def kl_div(input, target, reduction=1, *, log_target=False):
    """nn.functional.kl_div, the reduction a number."""
    return loss.kl_div(input, target, reduction=_word("kl_div", reduction), log_target=log_target)


@composite
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """nn.functional.poisson_nll_loss, the reduction a number."""
    return loss.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_word("poisson_nll_loss", reduction))


@composite
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """nn.functional.cosine_embedding_loss, the reduction a number."""
    return metric.cosine_embedding_loss(input1, input2, target, margin, reduction=_word("cosine_embedding_loss", reduction))


@composite
def hinge_embedding_loss(input, target, margin=1.0, reduction=1):
    """nn.functional.hinge_embedding_loss, the reduction a number."""
    return metric.hinge_embedding_loss(input, target, margin, reduction=_word("hinge_embedding_loss", reduction))


@composite
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1):
    """nn.functional.margin_ranking_loss, the reduction a number."""
    return metric.margin_ranking_loss(input1, input2, target, margin, reduction=_word("margin_ranking_loss", reduction))


@composite
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    """nn.functional.triplet_margin_loss, the reduction a number."""
    return metric.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_word("triplet_margin_loss", reduction))


@composite
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """nn.functional.ctc_loss, the reduction a number."""
    return ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _word("ctc_loss", reduction), zero_infinity)


@composite
def norm_except_dim(v, pow=2, dim=0):
    """The norm of v over every dimension but dim, kept with size 1 (all of them for dim -1: weight_norm's g)."""
    return v.norm(pow) if dim == -1 else v.norm(pow, [i for i in range(v.dim()) if i != dim % v.dim()], keepdim=True)


@composite
def get_device(input):
    """The device number of a tensor; -1 for a cpu tensor."""
    return input.get_device()


@composite
def sym_int(a):
    """int(a), toward zero; sizes are plain numbers here, and the sym_ functions Python's own."""
    return int(a)


@composite
def sym_float(a):
    """float(a)."""
    return float(a)


@composite
def sym_max(a, b):
    """The larger number; a float when one of them is."""
    r = builtins.max(a, b)
    return float(r) if isinstance(a, float) or isinstance(b, float) else r


@composite
def sym_min(a, b):
    """The smaller number; a float when one of them is."""
    r = builtins.min(a, b)
    return float(r) if isinstance(a, float) or isinstance(b, float) else r


@composite
def sym_not(a):
    """not a."""
    return not a


@composite
def sym_ite(b, t, f):
    """t if b, else f."""
    check(isinstance(b, bool), f"sym_ite: the condition must be a bool, got {type(b).__name__}", TypeError)
    return t if b else f


@composite
def sym_sqrt(a):
    """The square root of a number."""
    return math.sqrt(a)


@composite
def sym_sum(args):
    """The sum of numbers."""
    return builtins.sum(args)
