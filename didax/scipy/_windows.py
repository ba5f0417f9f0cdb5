"""Windows for spectra, by the names and parameters of `scipy.signal.get_window`: periodic ones, for Fourier transforms.

NumPy computes the samples, because a window is known when a program is written. n counts the samples from 0 on, and N
is their number, the period.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from didax.core.errors import ArgumentError, message

Samples = np.ndarray[Any, Any]


def cosines(n: Samples, size: int, *coefficients: float) -> Samples:
    """The sum of (-1)^k c_k cos(2 pi k n / N)."""
    return np.sum([(-1) ** k * c * np.cos(2 * np.pi * k * n / size) for k, c in enumerate(coefficients)], 0)


def _middle(n: Samples, size: int) -> Samples:
    """The distance from the middle of the window, which is 1 at its ends."""
    return abs(2 * n / size - 1)


def _triang(n: Samples, size: int) -> Samples:
    return 1 - abs(2 * n - size) / (size + 1 + (size + 1) % 2)


def _parzen(n: Samples, size: int) -> Samples:
    x = abs(2 * n - size) / (size + 1)
    return np.where(abs(2 * n - size) <= size / 2, 1 - 6 * x**2 + 6 * x**3, 2 * (1 - x) ** 3)


def _bohman(n: Samples, size: int) -> Samples:
    x = _middle(n, size)
    return np.where(x < 1, (1 - x) * np.cos(np.pi * x) + np.sin(np.pi * x) / np.pi, 0)


def _exponential(n: Samples, size: int, center: float | None = None, tau: float = 1.0) -> Samples:
    return np.exp(-abs(n - (size / 2 if center is None else center)) / tau)


def _kaiser(n: Samples, size: int, beta: float) -> Samples:
    return np.i0(beta * np.sqrt(1 - (2 * n / size - 1) ** 2)) / np.i0(beta)


def _tukey(n: Samples, size: int, share: float = 0.5) -> Samples:
    edge = np.minimum(n, size - n) / size
    if not share:
        return np.ones(size)
    return np.where(edge < share / 2, 0.5 - 0.5 * np.cos(2 * np.pi * edge / share), 1.0)


# A periodic window is a symmetric window with one sample more, whose last sample is left out.


def _chebwin(n: Samples, size: int, attenuation: float) -> Samples:
    """Side lobes of one height: the spectrum is a Chebyshev polynomial, T(beta cos(pi k / M)) of the order M - 1."""
    count = size + 1
    k = np.arange(count)
    beta = np.cosh(np.arccosh(10 ** (abs(attenuation) / 20)) / size)
    x = beta * np.cos(np.pi * k / count)
    outside = np.where(x < 0, (-1.0) ** size, 1) * np.cosh(size * np.arccosh(np.maximum(abs(x), 1)))
    spectrum = np.where(abs(x) > 1, outside, np.cos(size * np.arccos(np.clip(x, -1, 1))))
    window = np.fft.fft(spectrum * np.exp(1j * np.pi * k * size / count)).real
    return (window / window.max())[:size]


def _taylor(n: Samples, size: int, nbar: int = 4, sll: float = 30, norm: bool = True) -> Samples:
    """`nbar` side lobes of nearly one height, `sll` dB below the main lobe (Carrara, Goodman and Majewski, 1995)."""
    a = np.arccosh(10 ** (sll / 20)) / np.pi
    m = np.arange(1, nbar)
    spread = nbar**2 / (a**2 + (nbar - 0.5) ** 2)
    zeros = 1 - m[:, None] ** 2 / (spread * (a**2 + (m - 0.5) ** 2))
    others = np.where(m[:, None] == m, 1, 1 - m[:, None] ** 2 / m**2)
    weights = -((-1.0) ** m) * zeros.prod(1) / others.prod(1)
    centred = n - size / 2
    window = 1 + np.cos(2 * np.pi * np.outer(centred, m) / (size + 1)) @ weights
    return window / (1 + weights.sum()) if norm else window


def _dpss(n: Samples, size: int, half_bandwidth: float) -> Samples:
    """The window with the most energy in a band (Slepian, 1978): an eigenvector of a tridiagonal matrix."""
    from scipy.linalg import eigh_tridiagonal

    count = size + 1
    if not 0 < half_bandwidth < count / 2:
        rule = "The half bandwidth of a dpss window is positive and less than half of its samples."
        fix = f"Use a number below {count / 2}."
        raise ValueError(message(rule, f"half bandwidth: {half_bandwidth}, samples: {count}", fix=fix))
    diagonal = ((count - 1 - 2 * np.arange(count)) / 2) ** 2 * np.cos(2 * np.pi * half_bandwidth / count)
    k = np.arange(1, count)
    _, vectors = eigh_tridiagonal(diagonal, k * (count - k) / 2, select="i", select_range=(size, size))
    window = abs(vectors[:, 0])  # the first eigenvector has no sign change
    window = window / window.max()
    return (window * (count**2 / (count**2 + half_bandwidth) if count % 2 == 0 else 1))[:size]


# The least and the largest number of parameters, and the formula.
_FORMULAS: dict[str, tuple[int, int, Callable[..., Samples]]] = {
    "boxcar": (0, 0, lambda n, size: np.ones(size)),
    "hann": (0, 0, lambda n, size: cosines(n, size, 0.5, 0.5)),
    "hamming": (0, 0, lambda n, size: cosines(n, size, 0.54, 0.46)),
    "blackman": (0, 0, lambda n, size: cosines(n, size, 0.42, 0.5, 0.08)),
    "nuttall": (0, 0, lambda n, size: cosines(n, size, 0.3635819, 0.4891775, 0.1365995, 0.0106411)),
    "blackmanharris": (0, 0, lambda n, size: cosines(n, size, 0.35875, 0.48829, 0.14128, 0.01168)),
    "flattop": (0, 0, lambda n, size: cosines(
        n, size, 0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368)),
    "general_cosine": (1, 1, lambda n, size, a: cosines(n, size, *a)),
    "general_hamming": (1, 1, lambda n, size, a: cosines(n, size, a, 1 - a)),
    "cosine": (0, 0, lambda n, size: np.sin(np.pi * (n + 0.5) / (size + 1))),
    "lanczos": (0, 0, lambda n, size: np.sinc(2 * n / size - 1)),
    "bartlett": (0, 0, lambda n, size: 1 - _middle(n, size)),
    "barthann": (0, 0, lambda n, size: 0.62 - 0.24 * _middle(n, size) + 0.38 * np.cos(np.pi * _middle(n, size))),
    "triang": (0, 0, _triang), "parzen": (0, 0, _parzen), "bohman": (0, 0, _bohman),
    "gaussian": (1, 1, lambda n, size, std: np.exp(-0.5 * ((n - size / 2) / std) ** 2)),
    "general_gaussian": (2, 2, lambda n, size, p, std: np.exp(-0.5 * abs((n - size / 2) / std) ** (2 * p))),
    "exponential": (0, 2, _exponential), "kaiser": (1, 1, _kaiser), "tukey": (0, 1, _tukey),
    "chebwin": (1, 1, _chebwin), "taylor": (0, 3, _taylor), "dpss": (1, 1, _dpss),
}  # fmt: skip
_ALIASES = {"rect": "boxcar", "rectangular": "boxcar", "ones": "boxcar", "triangle": "triang", "sinc": "lanczos",
            "poisson": "exponential", "halfcosine": "cosine"}  # fmt: skip


def samples(name: str, window: Any, length: int) -> Samples:
    """The samples of a window: its name, or a tuple of its name and parameters. Errors name the function `name`."""
    if isinstance(window, float):
        window = ("kaiser", window)
    kind, *parameters = window if isinstance(window, tuple) and window else (window,)
    known_as = _ALIASES.get(kind, kind) if isinstance(kind, str) else ""
    least, most, formula = _FORMULAS.get(known_as, (1, 0, np.ones))
    if not least <= len(parameters) <= most:
        known = ", ".join(f"{k!r}" if not high else f"({k!r}, ...)" for k, (_, high, _) in _FORMULAS.items())
        fix = f"Use one of {known}, or an array."
        raise ArgumentError(
            message(f"{name} does not know this window.", f"window: {window!r:.100}", fix=fix)
        )
    if length == 1:
        return np.ones(1)  # as in SciPy: the formulas give 0, by which no power can be divided
    return np.asarray(formula(np.arange(length), length, *parameters))
