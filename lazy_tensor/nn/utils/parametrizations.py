"""Weight norm, spectral norm and orthogonality as parametrizations (torch.nn.utils.parametrizations)."""
from __future__ import annotations

import lazy_tensor as lt
from lazy_tensor.modes import no_grad
from lazy_tensor.nn.module import Module
from lazy_tensor.nn.utils import parametrize


def norm_except_dim(v, dim):
    """The 2-norm over all dimensions but dim (all of them for -1), kept."""
    if dim == -1:
        return v.norm()
    return (v * v).sum([i for i in range(v.dim()) if i != dim % v.dim()], keepdim=True).sqrt()


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """name = g v / ||v||, the norm over all dimensions but dim (Salimans and Kingma 2016)."""
    return parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(f"Dimension out of range (expected to be in range of [-{weight.dim()}, {weight.dim() - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got n_power_iterations="
                             f"{n_power_iterations}")
        self.dim, self.eps = dim % weight.dim(), eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                mat = self._matrix(weight)
                h, w = mat.shape
                kw = dict(dtype=mat.dtype, device=mat.device)
                self.register_buffer("_u", self._unit(lt.empty(h, **kw).normal_(0, 1)))
                self.register_buffer("_v", self._unit(lt.empty(w, **kw).normal_(0, 1)))
                self._iterate(mat, 15)

    def _unit(self, x):
        return x / x.norm().clamp(min=self.eps)

    def _matrix(self, weight):
        if self.dim:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _iterate(self, mat, n):
        with no_grad():
            u, v = self._u, self._v
            for _ in range(n):
                u = self._unit(mat @ v)
                v = self._unit(mat.t() @ u)
            self._u, self._v = u.detach(), v.detach()

    def forward(self, weight):
        if weight.dim() == 1:
            return self._unit(weight)
        mat = self._matrix(weight)
        if self.training:
            self._iterate(mat, self.n_power_iterations)
        return weight / lt.dot(self._u, mat @ self._v)

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """name divided by its largest singular value, by power iteration (Miyato et al. 2018)."""
    weight = getattr(module, name)
    if dim is None:
        from lazy_tensor.nn.layers.conv import _ConvTransposeNd
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
