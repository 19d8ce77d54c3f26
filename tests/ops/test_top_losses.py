"""Top-level losses equal nn.functional's; their reduction is a number."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
import lazy_tensor.nn.functional as F

X, Y = lt.tensor([[0.2, -1.0], [0.7, 0.4]]), lt.tensor([[0.3, 0.6], [0.9, 0.1]])
V, SIGN = lt.tensor([0.2, -1.0]), lt.tensor([1.0, -1.0])
CALLS = [
    (lt.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits, (X, Y)), (lt.kl_div, F.kl_div, (X, Y)),
    (lt.cosine_embedding_loss, F.cosine_embedding_loss, (X, Y, SIGN)), (lt.hinge_embedding_loss, F.hinge_embedding_loss, (V, SIGN)),
    (lt.margin_ranking_loss, F.margin_ranking_loss, (V, V * 2, SIGN)), (lt.triplet_margin_loss, F.triplet_margin_loss, (X, Y, X + 1)),
]


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("top,inner,args", CALLS, ids=[c[1].__name__ for c in CALLS])
def test_reductions(top, inner, args):
    for number, word in enumerate(("none", "mean", "sum")):
        lt.testing.assert_close(top(*args, reduction=number), inner(*args, reduction=word))
    lt.testing.assert_close(top(*args), inner(*args, reduction="mean"))
    with pytest.raises(ValueError, match="0 \\(none\\), 1 \\(mean\\)"):
        top(*args, reduction="mean")


def test_poisson_and_ctc():
    lt.testing.assert_close(lt.poisson_nll_loss(X, Y, True, False, 1e-8, 2), F.poisson_nll_loss(X, Y, reduction="sum"))
    p = lt.log_softmax(lt.arange(20.0).reshape(5, 1, 4).sin(), 2)
    args = (p, lt.tensor([[1, 2]]), lt.tensor([5]), lt.tensor([2]))
    lt.testing.assert_close(lt.ctc_loss(*args), F.ctc_loss(*args))


def test_norm_and_numbers():
    v = lt.arange(24.0).reshape(2, 3, 4)
    g = lt.norm_except_dim(v, 2, 1)
    assert g.shape == (1, 3, 1)
    lt.testing.assert_close(g[0, :, 0], (v * v).sum((0, 2)).sqrt())
    assert lt.norm_except_dim(v, 2, -1).shape == ()
    assert (lt.sym_int(-2.7), lt.sym_max(1, 2.0), lt.sym_min(1, 2), lt.sym_not(False), lt.sym_sum([1, 2])) == (-2, 2.0, 1, True, 3)
    assert lt.get_device(X) == -1
