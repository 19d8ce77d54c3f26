"""torch.fft, and the short-time transform and its inverse. Transforms run over static sizes; `norm` as in torch."""
from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, complex_dtype, default_float, is_complex, norm_dim
from lazy_tensor.ops._define import composite, op

FFT = "fft"
_NORMS = (None, "backward", "ortho", "forward")


def _complex(x, name):
    """x as complex; integers become the default float first."""
    check(x.dtype not in (jnp.bfloat16,), f"{name}: Unsupported dtype {x.dtype.name}")
    if jnp.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_:
        x = x.astype(default_float())
    return x.astype(np.complex64 if x.dtype == np.float16 else complex_dtype(x.dtype))


def _real(x, name):
    check(not is_complex(x.dtype), f"{name} expects a real input tensor, but got {x.dtype.name}")
    check(x.dtype not in (jnp.bfloat16,), f"{name}: Unsupported dtype {x.dtype.name}")
    if jnp.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_:
        x = x.astype(default_float())
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _norm(norm, name):
    check(norm in _NORMS, f'Invalid normalization mode: "{norm}" ({name}: one of backward, ortho, forward fits)')
    return norm or "backward"


def _size(n, name):
    check(n is None or n >= 1, f"{name}: Invalid number of data points ({n}) specified")
    return n


def _one(x, dim, name):
    d = norm_dim(dim, x.ndim)
    check(x.ndim > 0, f"{name}: expects at least a 1-d input", IndexError)
    return d


def _fit(x, n, d, name):
    """x cut or zero-padded to n along d."""
    if n is None:
        check(x.shape[d] >= 1, f"{name}: Invalid number of data points ({x.shape[d]}) specified")
        return x
    size = x.shape[d]
    if n < size:
        return jnp.take(x, np.arange(n), axis=d)
    return jnp.pad(x, [(0, n - size) if k == d else (0, 0) for k in range(x.ndim)]) if n > size else x


def _make_1d(name, real, inverse_real):
    def body(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None):
        nm = _norm(norm, name)
        _size(n, name)
        d = _one(input, dim, name)
        x = _real(input, name) if real else _complex(input, name)
        if inverse_real:
            out = n if n is not None else 2 * (x.shape[d] - 1)
            check(out >= 1, f"{name}: Invalid number of data points ({out}) specified")
            x = _fit(x, out // 2 + 1, d, name)
            return getattr(jnp.fft, name)(x, out, axis=d, norm=nm)
        x = _fit(x, n, d, name)
        return getattr(jnp.fft, name)(x, axis=d, norm=nm)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"The one-dimensional {name} of input along dim, cut or zero-padded to n points (torch.fft.{name})."
    body.__module__ = __name__
    return op(body, where=FFT)


for _name, _r, _ir in (("fft", False, False), ("ifft", False, False), ("rfft", True, False), ("irfft", False, True), ("hfft", False, True),
                       ("ihfft", True, False)):
    globals()[_name] = _make_1d(_name, _r, _ir)


def _dims(x, s, dim, name):
    """(dimensions, sizes) of an n-dimensional transform."""
    if dim is None:
        dim = tuple(range(x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
        check(s is None or len(s) <= x.ndim, f"{name}: Got shape with {len(s or ())} values but input tensor only has {x.ndim} dimensions.")
    dim = (dim,) if isinstance(dim, int) else dim
    dims = tuple(norm_dim(d, x.ndim) for d in dim)
    check(len(set(dims)) == len(dims), f"{name}: FFT dims must be unique")
    s = (s,) if isinstance(s, int) else s
    check(s is None or len(s) == len(dims), f"{name}: When given, dim and shape arguments must have the same length")
    sizes = tuple(x.shape[d] if s is None or s[i] == -1 else s[i] for i, d in enumerate(dims))
    return dims, sizes, s


def _fft_n(name, x, s, dim, norm):
    nm = _norm(norm, name)
    dims, sizes, s = _dims(x, s, dim, name)
    forward = {"hfftn": "irfft", "ihfftn": "rfft"}.get(name, name[:-1])
    swapped = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
    if name in ("fftn", "ifftn"):
        x = _complex(x, name)
        for d, n in zip(dims, sizes):
            x = getattr(jnp.fft, forward)(_fit(x, n, d, name), axis=d, norm=nm)
        return x
    if name == "rfftn":
        x = _real(x, name)
        check(len(dims) > 0, "rfftn must transform at least one axis")
        x = jnp.fft.rfft(_fit(x, sizes[-1], dims[-1], name), axis=dims[-1], norm=nm)
        for d, n in zip(dims[:-1], sizes[:-1]):
            x = jnp.fft.fft(_fit(x, n, d, name), axis=d, norm=nm)
        return x
    if name == "ihfftn":
        x = _real(x, name)
        check(len(dims) > 0, "ihfftn must transform at least one axis")
        x = jnp.conj(jnp.fft.rfft(_fit(x, sizes[-1], dims[-1], name), axis=dims[-1], norm=swapped[nm]))
        for d, n in zip(dims[:-1], sizes[:-1]):
            x = jnp.fft.ifft(_fit(x, n, d, name), axis=d, norm=nm)
        return x
    x = _complex(x, name)
    check(len(dims) > 0, f"{name} must transform at least one axis")
    last = sizes[-1] if s is not None and s[-1] != -1 else 2 * (x.shape[dims[-1]] - 1)
    check(last >= 1, f"{name}: Invalid number of data points ({last}) specified")
    inner = jnp.fft.ifft if name == "irfftn" else jnp.fft.fft
    for d, n in zip(dims[:-1], sizes[:-1]):
        x = inner(_fit(x, n, d, name), axis=d, norm=nm)
    x = _fit(x, last // 2 + 1, dims[-1], name)
    if name == "irfftn":
        return jnp.fft.irfft(x, last, axis=dims[-1], norm=nm)
    return jnp.fft.hfft(x, last, axis=dims[-1], norm=nm)


def _make_nd(name):
    def body(input: Array, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None):
        return _fft_n(name, input, s, dim, norm)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"The {name} of input over several dimensions (all by default), cut or zero-padded to sizes s (torch.fft.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, where=FFT)
    two = name[:-1] + "2"

    def body2(input: Array, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None):
        return _fft_n(name, input, s, dim, norm)
    body2.__name__ = body2.__qualname__ = two
    body2.__doc__ = f"The two-dimensional {two} of input over dim (torch.fft.{two})."
    body2.__module__ = __name__
    globals()[two] = op(body2, where=FFT)


for _name in ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"):
    _make_nd(_name)


@op(where=FFT)
def fftshift(input: Array, dim: Dims | None = None):
    """Zero frequency moved to the centre (torch.fft.fftshift)."""
    dims = tuple(range(input.ndim)) if dim is None else tuple(norm_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, int) else dim))
    return jnp.roll(input, [input.shape[d] // 2 for d in dims], dims)


@op(where=FFT)
def ifftshift(input: Array, dim: Dims | None = None):
    """The inverse of fftshift (torch.fft.ifftshift)."""
    dims = tuple(range(input.ndim)) if dim is None else tuple(norm_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, int) else dim))
    return jnp.roll(input, [-(input.shape[d] // 2) for d in dims], dims)


def _frequencies(fn, n, d, dtype, device, requires_grad):
    from lazy_tensor import creation
    t = creation.tensor(fn(n, d), dtype=dtype or creation.dtypes.get_default_dtype(), device=device)
    return t.requires_grad_(True) if requires_grad else t


@composite(where=FFT)
def fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """Sample frequencies of an n-point fft with spacing d (torch.fft.fftfreq)."""
    r = _frequencies(np.fft.fftfreq, n, d, dtype, device, requires_grad)
    return r if out is None else out.copy_(r)


@composite(where=FFT)
def rfftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """Sample frequencies of an n-point rfft with spacing d (torch.fft.rfftfreq)."""
    r = _frequencies(np.fft.rfftfreq, n, d, dtype, device, requires_grad)
    return r if out is None else out.copy_(r)


# ------------------------------------------------------------------------------------------- short-time transforms


@op(where=None, name="stft")
def _stft(input: Array, window: Array | None, n_fft: int, hop: int, win_length: int, normalized: bool, onesided: bool):
    length = input.shape[-1]
    frames = 1 + (length - n_fft) // hop
    at = np.arange(frames)[:, None] * hop + np.arange(n_fft)
    x = input[..., at]
    w = jnp.ones(win_length, input.real.dtype) if window is None else window
    left = (n_fft - win_length) // 2
    x = x * jnp.pad(w, (left, n_fft - win_length - left))
    norm = "ortho" if normalized else "backward"
    y = jnp.fft.rfft(x, axis=-1, norm=norm) if onesided else jnp.fft.fft(x, axis=-1, norm=norm)
    return jnp.swapaxes(y, -1, -2)


@composite(method=True)
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False, onesided=None,
         return_complex=None, align_to_window=None):
    """The short-time Fourier transform: (..., L) -> (..., frequencies, frames) (torch.stft)."""
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if input.dim() not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got {list(input.shape)}")
    if return_complex is None:
        if not input.is_complex() and (window is None or not window.is_complex()):
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs, and will further require that "
                               "return_complex=True in a future PyTorch release.")
        return_complex = True
    if center:
        from lazy_tensor.ops._define import namespace
        pad = namespace("nn.functional")["pad"]
        p = n_fft // 2
        x = input.unsqueeze(0).unsqueeze(0) if input.dim() == 1 else input.unsqueeze(1)
        x = pad(x, (p, p), pad_mode)
        input = x.reshape(-1) if input.dim() == 1 else x.squeeze(1)
    if not 0 < n_fft <= input.shape[-1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {input.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={win}")
    if window is not None and tuple(window.shape) != (win,):
        raise RuntimeError(f"stft: expected a 1D window tensor of size equal to win_length={win}, but got window with size {list(window.shape)}")
    cplx = input.is_complex() or (window is not None and window.is_complex())
    if onesided is None:
        onesided = not cplx
    if onesided and cplx:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    y = _stft(input, window, n_fft, hop, win, normalized, onesided)
    if return_complex:
        return y
    from lazy_tensor.ops._define import namespace
    return namespace("")["view_as_real"](y)


@op(where=None, name="istft")
def _istft(input: Array, window: Array | None, n_fft: int, hop: int, win_length: int, center: bool, normalized: bool, onesided: bool,
           length: int | None, return_complex: bool):
    x = jnp.swapaxes(input, -1, -2)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        y = jnp.fft.ifft(x, axis=-1, norm=norm)
    else:
        y = jnp.fft.irfft(x if onesided else x[..., :n_fft // 2 + 1], n_fft, axis=-1, norm=norm)
    w = jnp.ones(win_length, y.real.dtype) if window is None else window
    left = (n_fft - win_length) // 2
    w = jnp.pad(w, (left, n_fft - win_length - left))
    frames = x.shape[-2]
    total = n_fft + hop * (frames - 1)
    at = (np.arange(frames)[:, None] * hop + np.arange(n_fft)).reshape(-1)
    flat = (y * w).reshape(*y.shape[:-2], -1)
    out = jnp.zeros((*y.shape[:-2], total), flat.dtype).at[..., at].add(flat)
    env = jnp.zeros(total, w.dtype).at[at].add(jnp.tile(w * w, frames))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - (n_fft // 2 if center else 0)
    stop = min(end, total)
    out = out[..., start:stop] / env[start:stop]
    return jnp.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, end - stop)]) if end > stop else out


@composite(method=True)
def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None,
          return_complex=False):
    """The inverse short-time Fourier transform by overlap and add (torch.istft)."""
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    if input.numel() == 0:
        raise RuntimeError("istft: input tensor cannot be empty")
    if input.dim() not in (2, 3):
        raise RuntimeError(f"istft: expected a tensor with 2 or 3 dimensions, but got {input.dim()}")
    bins = input.shape[-2]
    if onesided is None:
        onesided = bins != n_fft
    want = n_fft // 2 + 1 if onesided else n_fft
    if bins != want:
        raise RuntimeError(f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft "
                           f"{'/ 2 + 1 ' if onesided else ''}when onesided={onesided}, but got {bins}")
    if not 0 < hop <= win:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, but got hop_length={hop}")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"istft: expected 0 < win_length <= n_fft, but got win_length={win}")
    if window is not None and tuple(window.shape) != (win,):
        raise RuntimeError(f"istft: Invalid window shape. window has to be 1D and length of `win_length`={win}, got {list(window.shape)}")
    if window is not None:
        w = np.pad(np.abs(np.asarray(window.detach().cpu()._host())), ((n_fft - win) // 2, n_fft - win - (n_fft - win) // 2))
    else:
        w = np.pad(np.ones(win), ((n_fft - win) // 2, n_fft - win - (n_fft - win) // 2))
    frames = input.shape[-1]
    env = np.zeros(n_fft + hop * (frames - 1))
    for f in range(frames):
        env[f * hop:f * hop + n_fft] += w ** 2
    a = n_fft // 2 if center else 0
    b = min(a + length, len(env)) if length is not None else len(env) - (n_fft // 2 if center else 0)
    if env[a:b].size and env[a:b].min() < 1e-11:
        raise RuntimeError("istft: window overlap add min: 1")
    return _istft(input, window, n_fft, hop, win, center, normalized, onesided, length, return_complex)
