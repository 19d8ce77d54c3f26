"""Losses (torch.nn.modules.loss)."""
from __future__ import annotations

import math

from lazy_tensor.nn import functional as F
from lazy_tensor.nn.layers._plain import Plain
from lazy_tensor.nn.layers.linear import Linear
from lazy_tensor.nn.module import Module
from lazy_tensor.ops._nn import legacy

_OLD = dict(size_average=None, reduce=None, reduction="mean")


class _Loss(Plain):
    """A loss of input and target: arguments, a `reduction`, one function. Fields in `_buffers_of` are tensors kept as buffers."""

    _buffers_of: tuple = ()

    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        cls._pass_fields = tuple(k for k in cls._fields if k not in ("size_average", "reduce"))

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if "size_average" in self._fields:
            self.reduction = legacy(self.size_average, self.reduce, self.reduction)
            del self.size_average, self.reduce
        for name in self._buffers_of:
            value = self.__dict__.pop(name)
            self.register_buffer(name, value)

    def forward(self, input, target):
        """The loss of input and target."""
        return getattr(F, self._fn)(input, target, **{k: getattr(self, k) for k in self._pass_fields})

    def extra_repr(self):
        """Nothing."""
        return ""


_WeightedLoss = _Loss


def _make(name, fn, doc, fields=_OLD, buffers=(), base=_Loss):
    return type(name, (base,), dict(_fields=fields, _fn=fn, _buffers_of=buffers, __module__=__name__, __doc__=f"{doc} (torch.nn.{name})."))


class _OfPoisson(_Loss):
    def forward(self, log_input, target):
        """F.poisson_nll_loss."""
        return _Loss.forward(self, log_input, target)


class _OfPair(_Loss):
    def forward(self, input1, input2, target):
        """The loss of two inputs and a target."""
        return getattr(F, self._fn)(input1, input2, target, **{k: getattr(self, k) for k in self._pass_fields})


class _OfTriplet(_Loss):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {self.margin} instead")

    def forward(self, anchor, positive, negative):
        """F.triplet_margin_loss."""
        return F.triplet_margin_loss(anchor, positive, negative, **{k: getattr(self, k) for k in self._pass_fields})


_W = dict(weight=None, **_OLD)
L1Loss = _make("L1Loss", "l1_loss", "Mean of |x - y|")
MSELoss = _make("MSELoss", "mse_loss", "Mean of (x - y)^2")
SoftMarginLoss = _make("SoftMarginLoss", "soft_margin_loss", "Mean of log(1 + exp(-y x))")
MultiLabelMarginLoss = _make("MultiLabelMarginLoss", "multilabel_margin_loss", "Multi-class multi-label hinge loss")
SmoothL1Loss = _make("SmoothL1Loss", "smooth_l1_loss", "Squared below beta, absolute above", dict(**_OLD, beta=1.0))
HuberLoss = _make("HuberLoss", "huber_loss", "Squared below delta, delta-scaled absolute above", dict(reduction="mean", delta=1.0))
KLDivLoss = _make("KLDivLoss", "kl_div", "y (log y - x), x log-probabilities", dict(**_OLD, log_target=False))
PoissonNLLLoss = _make("PoissonNLLLoss", "poisson_nll_loss", "Negative log-likelihood of Poisson counts",
                       dict(log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"), base=_OfPoisson)
NLLLoss = _make("NLLLoss", "nll_loss", "Negative log-likelihood of class indices",
                dict(weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"), ("weight",))
CrossEntropyLoss = _make("CrossEntropyLoss", "cross_entropy", "Cross entropy of logits and class indices or probabilities",
                         dict(weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0),
                         ("weight",))
BCELoss = _make("BCELoss", "binary_cross_entropy", "Binary cross entropy of probabilities", _W, ("weight",))
BCEWithLogitsLoss = _make("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", "Binary cross entropy of logits",
                          dict(weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None), ("weight", "pos_weight"))
HingeEmbeddingLoss = _make("HingeEmbeddingLoss", "hinge_embedding_loss", "x for y = 1, max(0, margin - x) for y = -1",
                           dict(margin=1.0, **_OLD))
MultiLabelSoftMarginLoss = _make("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss",
                                 "Multi-label one-versus-all cross entropy", _W, ("weight",))
CosineEmbeddingLoss = _make("CosineEmbeddingLoss", "cosine_embedding_loss", "1 - cos for y = 1, max(0, cos - margin) for y = -1",
                            dict(margin=0.0, **_OLD), base=_OfPair)
MarginRankingLoss = _make("MarginRankingLoss", "margin_ranking_loss", "max(0, -y (x1 - x2) + margin)", dict(margin=0.0, **_OLD),
                          base=_OfPair)
TripletMarginLoss = _make("TripletMarginLoss", "triplet_margin_loss", "max(0, d(a, p) - d(a, n) + margin)",
                          dict(margin=1.0, p=2.0, eps=1e-6, swap=False, **_OLD), base=_OfTriplet)


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of normals (torch.nn.GaussianNLLLoss)."""

    _fields = dict(full=False, eps=1e-6, reduction="mean")

    def __init__(self, *, full=False, eps=1e-6, reduction="mean"):
        super().__init__(full, eps, reduction)

    def forward(self, input, target, var):
        """F.gaussian_nll_loss."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class MultiMarginLoss(_Loss):
    """Multi-class hinge loss (torch.nn.MultiMarginLoss)."""

    _fields = dict(p=1, margin=1.0, weight=None, **_OLD)
    _fn, _buffers_of = "multi_margin_loss", ("weight",)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if self.weight is not None and self.weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {self.weight.dim()}D instead")


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images."""

    _fields = NLLLoss._fields


class TripletMarginWithDistanceLoss(Plain):
    """Triplet loss with a distance of the user's (torch.nn.TripletMarginWithDistanceLoss)."""

    _fields = dict(distance_function=None, margin=1.0, swap=False, reduction="mean")
    _shown = ()

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__(distance_function, margin, swap, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead")
        if distance_function is None:
            from lazy_tensor.nn.layers.misc import PairwiseDistance
            self.distance_function = PairwiseDistance()

    def forward(self, anchor, positive, negative):
        """F.triplet_margin_with_distance_loss."""
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=self.distance_function,
                                                   margin=self.margin, swap=self.swap, reduction=self.reduction)


class CTCLoss(Plain):
    """Connectionist temporal classification (Graves et al. 2006; torch.nn.CTCLoss)."""

    _fields = dict(blank=0, reduction="mean", zero_infinity=False)
    _shown = ()

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        """F.ctc_loss."""
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)


class LinearCrossEntropyLoss(Module):
    """Cross entropy of a linear map of the input (torch.nn.LinearCrossEntropyLoss); input (*, in_features)."""

    def __init__(self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None, reduction="mean", weight=None,
                 ignore_index=None, label_smoothing=0.0, options=None):
        super().__init__()
        self.in_features, self.num_classes, self.out_features = in_features, num_classes, tuple(out_features)
        self.reduction, self.ignore_index, self.label_smoothing, self.options = reduction, ignore_index, label_smoothing, options
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)

    def forward(self, input, target):
        """F.linear_cross_entropy."""
        w, b = self.linear.weight, self.linear.bias
        if self.out_features:
            w = w.reshape(self.num_classes, *self.out_features, self.in_features)
            b = None if b is None else b.reshape(self.num_classes, *self.out_features)
        return F.linear_cross_entropy(input, w, target, linear_bias=b, weight=self.weight, reduction=self.reduction,
                                      ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options)

    def extra_repr(self):
        """The arguments."""
        return (f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
                f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
                f"label_smoothing={self.label_smoothing}, options={self.options}")
