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
    """name = g v / ||v||, the norm over all dimensions but dim (Salimans and Kingma 2016); loads states of the hook form too."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def of_hook_form(state_dict, prefix, *_):
        for old, new in (("_g", "original0"), ("_v", "original1")):
            if prefix + name + old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(prefix + name + old)
    module._register_load_state_dict_pre_hook(of_hook_form)
    return module


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


# ------------------------------------------------------------------------------------------- orthogonality


def _is_orthogonal(q):
    """Whether q's columns are orthonormal up to rounding."""
    n, k = q.shape[-2:]
    eye = lt.eye(k, dtype=q.dtype, device=q.device)
    return lt.allclose(q.mH @ q, eye.expand(*q.shape[:-2], k, k), atol=10 * n * lt.finfo(q.dtype).eps)


def _make_orthogonal(a):
    """The Q of a QR decomposition of a (n x k, n >= k) whose R has a positive diagonal: a itself where a is orthogonal."""
    a, tau = lt.geqrf(a)
    return lt.linalg.householder_product(a, tau) * a.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """X -> orthogonal matrix by `orthogonal_map`; with trivialization times `base`, so that any Q can be assigned (X = -I there)."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            A = X.tril(-1)
            Q = lt.linalg.householder_product(A, 2.0 / (1.0 + (A * A).sum(-2)))
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = lt.cat([X, X.new_zeros(*X.shape[:-2], n, n - k)], -1)
            A = X - X.mH
            if self.orthogonal_map == "matrix_exp":
                Q = lt.matrix_exp(A)
            else:
                eye = lt.eye(n, dtype=A.dtype, device=A.device)
                Q = lt.linalg.solve(lt.add(eye, A, alpha=-0.5), lt.add(eye, A, alpha=0.5))
            if n != k:
                Q = Q[..., :k]
        base = self._buffers.get("base")
        if base is not None:
            Q = base @ Q
        return Q.mT if wide else Q

    @lt.no_grad()
    def right_inverse(self, Q):
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}.")
        given, wide = Q, Q.size(-2) < Q.size(-1)
        Q = Q.mT if wide else Q
        n, k = Q.shape[-2:]
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                                          "use_trivialization=False.")
            A, tau = lt.geqrf(Q)
            # the diagonal of X holds the signs of the columns; where tau is 0, forward's reflection (tau 2) turns the sign once more
            sign = A.diagonal(dim1=-2, dim2=-1).sign() * lt.where(tau == 0, -1.0, 1.0).to(A.dtype)
            A = lt.diagonal_scatter(A, sign, dim1=-2, dim2=-1)
            return A.mT if wide else A
        if n == k:
            self.base = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        else:
            more = lt.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            self.base = _make_orthogonal(lt.cat([Q, more], -1))
        minus = lt.zeros_like(given)
        minus.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return minus


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """name orthogonal (its rows, where it is wide; unitary where complex), for a matrix or batches (Lezcano-Casado 2019).

    `orthogonal_map`: "matrix_exp" exp(A), "cayley" (I + A/2)(I - A/2)^-1, A = tril(X) - tril(X)^H, or "householder" (product of
    reflections, real only); None: "matrix_exp" for square and complex, "householder" otherwise. `use_trivialization`: times a
    constant matrix, by which any orthogonal value can be assigned; ValueError for vectors, unknown maps and names."""
    weight = getattr(module, name, None)
    if not isinstance(weight, lt.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    orth = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, orth, unsafe=True)
