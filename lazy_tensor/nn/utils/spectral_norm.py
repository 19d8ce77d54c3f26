"""The hook form of spectral norm (torch.nn.utils.spectral_norm), whose state has name_orig, name_u and name_v."""
from __future__ import annotations

import lazy_tensor as lt
from lazy_tensor.nn import functional as F
from lazy_tensor.nn.parameter import Parameter, is_lazy


class SpectralNorm:
    """A forward pre-hook that computes name = name_orig / sigma, sigma = u^T W v by power iteration (while training)."""

    _version = 1  # of the state: 1 has name_v

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def reshape_weight_to_matrix(self, weight):
        """weight as a matrix whose rows are its slices along dim."""
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module, do_power_iteration):
        """name_orig / sigma; the power iteration updates name_u and name_v in place."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        mat = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with lt.no_grad():
                new_u, new_v = u, v
                for _ in range(self.n_power_iterations):
                    new_v = F.normalize(mat.t() @ new_u, dim=0, eps=self.eps)
                    new_u = F.normalize(mat @ new_v, dim=0, eps=self.eps)
                u.copy_(new_u)
                v.copy_(new_v)
                u, v = u.clone(), v.clone()  # a second forward before backward updates the buffers again
        return weight / lt.dot(u, mat @ v)

    def remove(self, module):
        """Make the normalized value the parameter `name` for good."""
        with lt.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for part in ("_u", "_v", "_orig"):
            delattr(module, self.name + part)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale_weight(self, mat, u, sigma):
        """v such that u^T W v is sigma and u the (normalized) image of v: what a state without name_v meant."""
        v = lt.linalg.pinv(mat.t() @ mat) @ (mat.t() @ u)
        return v * (sigma / lt.dot(u, mat @ v))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        """Put the hook on module's `name`; returns it. RuntimeError for a second one."""
        if any(isinstance(h, SpectralNorm) and h.name == name for h in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError("The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
                             "before applying spectral normalization")
        with lt.no_grad():
            h, w = fn.reshape_weight_to_matrix(weight).shape
            u, v = (F.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in (h, w))
        del module._parameters[name]
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormLoadStateDictPreHook:
    """Gives a state dict written before version 1 (normalized `name`, no name_v) the name_v that it implies."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version")
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        if version is None and key not in state_dict and all(key + s in state_dict for s in ("_orig", "_u", "_v")):
            return  # a plain dict of this version's keys
        missing = [key + s for s in ("_orig", "_u", "") if key + s not in state_dict]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with lt.no_grad():
            orig, weight = state_dict[key + "_orig"], state_dict.pop(key)
            sigma = (orig / weight).mean()
            mat = fn.reshape_weight_to_matrix(orig)
            state_dict[key + "_v"] = fn._solve_v_and_rescale_weight(mat, state_dict[key + "_u"], sigma)


class SpectralNormStateDictHook:
    """Writes the version of the state into the state dict's metadata."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, module, state_dict, prefix, local_metadata):
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide module's `name` by its largest singular value, by power iteration (Miyato et al. 2018); returns module."""
    if dim is None:
        from lazy_tensor.nn.layers.conv import _ConvTransposeNd
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Make module's `name` an ordinary parameter again; returns module."""
    for hooks, kind in ((module._forward_pre_hooks, SpectralNorm), (module._state_dict_hooks, SpectralNormStateDictHook),
                        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook)):
        key = next((k for k, h in hooks.items() if isinstance(h, kind) and getattr(h, "fn", h).name == name), None)
        if key is None:
            raise ValueError(f"spectral_norm of '{name}' not found in {module}")
        hook = hooks.pop(key)
        if kind is SpectralNorm:
            hook.remove(module)
    return module
