"""Adaptive softmax (torch.nn.AdaptiveLogSoftmaxWithLoss; Grave et al. 2016)."""
from __future__ import annotations

from collections import namedtuple

import lazy_tensor as lt
from lazy_tensor.nn import functional as F
from lazy_tensor.nn.containers import ModuleList, Sequential
from lazy_tensor.nn.layers.linear import Linear
from lazy_tensor.nn.module import Module

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """log softmax over many classes, the rare ones in clusters behind low-rank projections."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (cutoffs != sorted(cutoffs) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1 or len(set(cutoffs)) != len(cutoffs)
                or any(int(c) != c for c in cutoffs)):
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
                             "is between 1 and n_classes-1")
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, cutoffs + [n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        kw = dict(device=device, dtype=dtype)
        self.head = Linear(in_features, self.head_size, bias=head_bias, **kw)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            self.tail.append(Sequential(Linear(in_features, hidden, bias=False, **kw),
                                        Linear(hidden, self.cutoffs[i + 1] - self.cutoffs[i], bias=False, **kw)))

    def reset_parameters(self):
        """Reset all linear maps."""
        self.head.reset_parameters()
        for a, b in self.tail:
            a.reset_parameters()
            b.reset_parameters()

    def forward(self, input_, target_):
        """(log-probability of each target, mean negative log-likelihood); input (N, in) or (in,)."""
        if target_.dim() == 1:
            if input_.size(0) != target_.size(0):
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input_.size()}")
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input_.size()}")
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        x = input_ if target_.dim() else input_.unsqueeze(0)
        target = target_ if target_.dim() else target_.unsqueeze(0)
        low, high = (int(v) for v in (target.min(), target.max()))
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range [{low}, {high}] were found. ")
        head = F.log_softmax(self.head(x), dim=1)
        out = head.gather(1, target.clamp(max=self.shortlist_size - 1).unsqueeze(1)).squeeze(1)
        for i in range(self.n_clusters):
            a, b = self.cutoffs[i], self.cutoffs[i + 1]
            tail = F.log_softmax(self.tail[i](x), dim=1)
            mine = tail.gather(1, (target - a).clamp(0, b - a - 1).unsqueeze(1)).squeeze(1) + head[:, self.shortlist_size + i]
            out = lt.where((target >= a) & (target < b), mine, out)
        loss = (-out).mean()
        return _ASMoutput(out if target_.dim() else out.squeeze(0), loss)

    def log_prob(self, input):
        """Log-probabilities of all classes (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, :self.shortlist_size]]
        for i in range(self.n_clusters):
            parts.append(F.log_softmax(self.tail[i](input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return lt.cat(parts, dim=1)

    def predict(self, input):
        """The most probable class of each row."""
        return self.log_prob(input).argmax(dim=1)
