"""lt.fft against numpy.fft: norms, sizes, dimensions, dtypes, errors; gradients by identities."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt

R = np.random.default_rng(0)
REAL, COMPLEX = R.standard_normal((3, 6)), R.standard_normal((3, 6)) + 1j * R.standard_normal((3, 6))
ONE = {"fft": COMPLEX, "ifft": COMPLEX, "rfft": REAL, "irfft": COMPLEX, "hfft": COMPLEX, "ihfft": REAL}
MANY = {"fft2": COMPLEX, "ifft2": COMPLEX, "rfft2": REAL, "irfft2": COMPLEX, "fftn": COMPLEX, "ifftn": COMPLEX, "rfftn": REAL, "irfftn": COMPLEX}


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ONE)
def test_one_dimension(name, norm):
    for n, dim in ((None, -1), (4, -1), (8, 1), (None, 0)):
        got = getattr(lt.fft, name)(lt.from_numpy(ONE[name].copy()), n, dim, norm)
        assert np.allclose(got.numpy(), getattr(np.fft, name)(ONE[name], n, dim, norm))


@pytest.mark.parametrize("name", MANY)
def test_several_dimensions(name):
    for kw in ({}, {"norm": "ortho"}, {"s": (2, 4)}):
        given = {**kw, "axes": (-2, -1)} if "s" in kw else kw
        dims = {"dim": (-2, -1)} if "s" in kw else {}
        assert np.allclose(getattr(lt.fft, name)(lt.from_numpy(MANY[name].copy()), **kw, **dims).numpy(), getattr(np.fft, name)(MANY[name], **given))


def test_shifts_and_frequencies():
    x = lt.from_numpy(REAL.copy())
    assert np.array_equal(lt.fft.fftshift(x).numpy(), np.fft.fftshift(REAL)) and np.array_equal(lt.fft.ifftshift(x, 1).numpy(), np.fft.ifftshift(REAL, 1))
    assert np.allclose(lt.fft.fftfreq(5, 0.5).numpy(), np.fft.fftfreq(5, 0.5)) and np.allclose(lt.fft.rfftfreq(6).numpy(), np.fft.rfftfreq(6))


def test_dtypes_and_errors():
    assert lt.fft.fft(lt.ones(4)).dtype == lt.complex64 and lt.fft.rfft(lt.ones(4, dtype=lt.float64)).dtype == lt.complex128
    assert lt.fft.irfft(lt.ones(3, dtype=lt.complex64)).dtype == lt.float32 and lt.fft.fft(lt.arange(4)).dtype == lt.complex64
    with pytest.raises(RuntimeError):
        lt.fft.rfft(lt.ones(4, dtype=lt.complex64))
    with pytest.raises(IndexError):
        lt.fft.fft(lt.ones(4), dim=2)
    with pytest.raises(RuntimeError):
        lt.fft.fft(lt.ones(4), n=0)
    with pytest.raises(RuntimeError):
        lt.fft.fft(lt.ones(4), norm="other")


def test_gradients():
    """d|F x|^2 / dx = 2 n x (Parseval); the transforms' own derivatives are rows of test_double_backward."""
    x = lt.from_numpy(REAL.copy()).requires_grad_()
    (lt.fft.fft(x).abs() ** 2).sum().backward()
    assert np.allclose(x.grad.numpy(), 2 * 6 * REAL)
