"""Rotations of space, as unit quaternions (x, y, z, w): `Rotation`, and `Slerp` between several of them.

    r = Rotation.from_euler("xyz", angles)      capital letters: about axes that turn with the body
    (r * s).apply(v)                            s first, then r

A rotation by the angle t about the unit vector n is the quaternion (n sin(t/2), cos(t/2)); q and -q are the same
rotation. Both classes are pytrees. A `Rotation` holds one rotation, or an array of them. Derivatives are finite, at the
identity, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import didax.numpy as dnp
from didax import random
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.modules import on_access
from didax.core.value import Array
from didax.numpy.promotion import ArrayLike
from didax.scipy._families import as_real
from didax.scipy._lists import of_list

__all__ = ["Rotation", "Slerp"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = on_access(__name__)


def _real(name: str, x: Any) -> Array:
    value = as_real(name, of_list(x))
    return value.astype(value.dtype)


def _vectors(name: str, x: Any, length: int) -> Array:
    value = _real(name, x)
    if not value.ndim or value.shape[-1] != length:
        fix = f"Pass an array of shape ({length},) or (..., {length})."
        raise ArgumentError(
            message(f"{name} takes vectors of {length} numbers.", f"operand: {value.aval}", fix=fix)
        )
    return value


def _product(p: Any, q: Any) -> Any:
    """The product of quaternions."""
    a, b, v, w = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = v * b + w * a + dnp.cross(a, b)
    return dnp.concatenate([vector, v * w - (a * b).sum(-1, keepdims=True)], -1)


def _unit(q: Any) -> Any:
    return q / dnp.linalg.norm(q, axis=-1, keepdims=True)


def _conjugate(q: Any) -> Any:
    return q * np.array([-1, -1, -1, 1], np.float32).astype(q.dtype)


def _positive(q: Any) -> Any:
    """q or -q, whichever has w >= 0."""
    return dnp.where(q[..., 3:] < 0, -q, q)


def _length(v: Any) -> Any:
    """The lengths of vectors, with derivative 0 at 0."""
    square = (v * v).sum(-1, keepdims=True)
    return dnp.where(square == 0, 0, dnp.sqrt(dnp.where(square == 0, 1, square)))


def _sin_ratio(half: Any) -> Any:
    """sin(t/2) / t for t/2 given."""
    return 0.5 * dnp.sinc(half / math.pi)


class Rotation(NamedTuple):
    """One rotation, or an array of them; `quat` has shape (4,) or (..., 4).

    >>> from didax.scipy.spatial.transform import Rotation
    >>> dnp.round(Rotation.from_euler("z", 90.0, degrees=True).apply(dnp.array([1.0, 0.0, 0.0])), 3) + 0.0
    Array([0., 1., 0.], dtype=float32)
    """

    quat: Array

    @classmethod
    @api_boundary
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """Return the rotations of quaternions (x, y, z, w), which are divided by their norms."""
        q = _vectors("Rotation.from_quat", quat, 4)
        return cls(_unit(q))

    @classmethod
    @api_boundary
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Return the rotations about vectors, by angles that are the vectors' lengths."""
        v = _vectors("Rotation.from_rotvec", rotvec, 3)
        v = dnp.deg2rad(v) if degrees else v
        half = 0.5 * _length(v)
        square = (v * v).sum(-1, keepdims=True)
        small = square < 1e-4  # there by series, which have all derivatives at 0
        ratio = dnp.where(small, 0.5 - square / 48 + square**2 / 3840, _sin_ratio(dnp.where(small, 1, half)))
        cos = dnp.where(small, 1 - square / 8 + square**2 / 384, dnp.cos(dnp.where(small, 0, half)))
        return cls(dnp.concatenate([v * ratio, cos], -1))

    @classmethod
    @api_boundary
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Return the rotations of modified Rodrigues parameters, vectors of length tan(angle / 4)."""
        v = _vectors("Rotation.from_mrp", mrp, 3)
        square = (v * v).sum(-1, keepdims=True)
        return cls(dnp.concatenate([2 * v, 1 - square], -1) / (1 + square))

    @classmethod
    @api_boundary
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Return the rotations of orthogonal 3 x 3 matrices, the last two axes."""
        m = _real("Rotation.from_matrix", matrix)
        if m.shape[-2:] != (3, 3):
            fix = "Pass an array of shape (3, 3) or (..., 3, 3)."
            raise ArgumentError(
                message("Rotation.from_matrix takes 3 x 3 matrices.", f"matrix: {m.aval}", fix=fix)
            )
        return cls(_quaternions(m))

    @classmethod
    @api_boundary
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Return the products of rotations about up to three axes: "xyz" about fixed ones, "XYZ" about turning ones."""
        intrinsic, axes = _axes(seq, (1, 2, 3))
        a = _real("Rotation.from_euler", angles)
        a = a[..., None] if len(axes) == 1 and (not a.ndim or a.shape[-1] != 1) else a
        if not a.ndim or a.shape[-1] != len(axes):
            fix = f"Pass angles of shape ({len(axes)},) or (..., {len(axes)})."
            rule = "Rotation.from_euler takes an angle for each axis."
            raise ArgumentError(message(rule, f"seq: {seq!r}, angles: {a.aval}", fix=fix))
        a = dnp.deg2rad(a) if degrees else a
        out: Any = None
        for i, axis in enumerate(axes):
            unit = np.eye(3)[axis].astype(a.dtype)
            half = 0.5 * a[..., i : i + 1]
            q = dnp.concatenate([dnp.sin(half) * unit, dnp.cos(half)], -1)
            out = q if out is None else _product(out, q) if intrinsic else _product(q, out)
        return cls(out)

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Return rotations drawn uniformly with a key."""
        return cls.from_quat(random.normal(random_key, (4,) if num is None else (num, 4)))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """Return the rotation that moves nothing, or `num` of them."""
        unit = dnp.array([0, 0, 0, 1]).astype(dtype)
        return cls(unit if num is None else dnp.tile(unit, (num, 1)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Return one vector of all rotations."""
        return cls(dnp.concatenate([dnp.atleast_2d(r.quat) for r in rotations]))

    @property
    def single(self) -> bool:
        """Whether this is one rotation and not a vector of them."""
        return self.quat.ndim == 1

    def __len__(self) -> int:
        if self.single:
            fix = "Make a vector of it first (Rotation.concatenate)."
            raise TypeError(message("One rotation has no length.", f"quat: {self.quat.aval}", fix=fix))
        return self.quat.shape[0]

    def __getitem__(self, indexer: Any) -> Rotation:  # type: ignore[override]
        if self.single:
            fix = "Make a vector of it first (Rotation.concatenate)."
            raise TypeError(message("One rotation cannot be indexed.", f"quat: {self.quat.aval}", fix=fix))
        return Rotation(self.quat[indexer])

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]
        if not isinstance(other, Rotation):
            rule = "A rotation is multiplied with rotations."
            raise TypeError(message(rule, f"other: {other!r:.60}", fix="Use r.apply(v) to rotate vectors."))
        return Rotation(_unit(_product(self.quat, other.quat)))  # a unit, or rounding errors would add up

    @api_boundary
    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Return the rotated vectors; one rotation and one vector broadcast against several."""
        v = _vectors("Rotation.apply", vectors, 3)
        m = self.as_matrix()
        m = dnp.matrix_transpose(m) if inverse else m
        return (m * v[..., None, :]).sum(-1)

    def inv(self) -> Rotation:
        """Return the inverse rotations."""
        return Rotation(_conjugate(self.quat))

    def magnitude(self) -> Array:
        """Return the angles, between 0 and pi."""
        return 2 * dnp.arctan2(_length(self.quat[..., :3])[..., 0], abs(self.quat[..., 3]))

    @api_boundary
    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """Return the rotation that is closest to all, in the sum of squared chordal distances."""
        q = dnp.atleast_2d(self.quat)
        w = dnp.ones(q.shape[0], q.dtype) if weights is None else dnp.asarray(weights).astype(q.dtype)
        if w.shape != q.shape[:1]:
            fix = "Pass a weight for each rotation."
            raise ArgumentError(
                message("mean takes as many weights.", f"weights: {w.aval}, n: {q.shape[0]}", fix=fix)
            )
        return Rotation(dnp.linalg.eigh((q.T * w) @ q).eigenvectors[:, -1])

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Return the quaternions; `canonical` ones have w > 0 (or the first nonzero of x, y, z positive)."""
        q = self.quat
        if canonical:
            sign, found = dnp.ones_like(q[..., :1]), dnp.zeros(q[..., :1].shape, bool)
            for i in (3, 0, 1, 2):
                part = q[..., i : i + 1]
                sign = dnp.where(~found & (part < 0), -1, sign)
                found = found | (part != 0)
            q = q * sign.astype(q.dtype)
        return dnp.roll(q, 1, -1) if scalar_first else q

    def as_matrix(self) -> Array:
        """Return the 3 x 3 matrices."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [w * w + x * x - y * y - z * z, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), w * w - x * x + y * y - z * z, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), w * w - x * x - y * y + z * z],
        ]
        return dnp.stack([dnp.stack(row, -1) for row in rows], -2)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Return the vectors of rotation, at most pi long."""
        q = _positive(self.quat)
        v, w = q[..., :3], q[..., 3:]
        square = (v * v).sum(-1, keepdims=True)
        small = square < 1e-4
        sine = dnp.sqrt(dnp.where(small, 1, square))
        angle = 2 * dnp.arctan2(sine, dnp.where(small, 1, w))
        # t / sin(t/2), with s = sin(t/2): 2 (1 + s^2/6 + 3 s^4/40 + 5 s^6/112 + ...)
        series = 2 + square / 3 + 0.15 * square**2 + 5 / 56 * square**3
        ratio = dnp.where(small, series, angle / sine)
        out = v * ratio
        return dnp.rad2deg(out) if degrees else out

    def as_mrp(self) -> Array:
        """Return modified Rodrigues parameters, vectors of length tan(angle / 4)."""
        q = _positive(self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    @api_boundary
    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Return the angles of the rotations about three axes that make up the rotation: see `from_euler`.

        The first and third are between -pi and pi, and the second between -pi/2 and pi/2, or between 0 and pi if the
        first axis is the third. Where only a sum of the first and third matters, the third is 0.
        """
        intrinsic, axes = _axes(seq, (3,))
        angles = _euler_angles(self.quat, axes, intrinsic)
        return dnp.rad2deg(angles) if degrees else angles


def _quaternions(m: Any) -> Any:
    """The quaternions of matrices, from whichever of x, y, z, w is largest (Markley, 2008)."""
    d = [m[..., i, i] for i in range(3)]
    trace = d[0] + d[1] + d[2]
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts: list[Any] = [None] * 4
        parts[i] = 1 - trace + 2 * d[i]
        parts[j], parts[k] = m[..., j, i] + m[..., i, j], m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        candidates.append(dnp.stack(parts, -1))
    last = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1], 1 + trace]
    candidates.append(dnp.stack(last, -1))
    choice = dnp.argmax(dnp.stack([*d, trace], -1), -1)[..., None]
    q = candidates[3]
    for i in range(3):
        q = dnp.where(choice == i, candidates[i], q)
    return _unit(q)


def _axes(seq: str, lengths: tuple[int, ...]) -> tuple[bool, list[int]]:
    """Whether the axes turn with the body, and which they are."""
    lower = seq.lower() if isinstance(seq, str) else ""
    valid = len(lower) in lengths and set(lower) <= set("xyz") and seq in (lower, lower.upper())
    if not valid or any(a == b for a, b in itertools.pairwise(lower)):
        fix = "Use letters of 'xyz' for fixed axes or 'XYZ' for turning ones, no letter twice in a row."
        facts = f"seq: {seq!r}, of length {' or '.join(map(str, lengths))}"
        raise ArgumentError(message("Euler angles need a sequence of axes.", facts, fix=fix))
    return seq != lower, ["xyz".index(letter) for letter in lower]


def _euler_angles(q: Any, axes: list[int], intrinsic: bool) -> Any:
    """Bernardes and Viollet (PLOS ONE 17, 2022), for angles about fixed axes; turning ones are those in reverse."""
    i, j, k = axes[::-1] if intrinsic else axes
    symmetric = i == k
    k = 3 - i - j if symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    if symmetric:
        a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
    else:
        a, b = q[..., 3] - q[..., j], q[..., i] + q[..., k] * sign
        c, d = q[..., j] + q[..., 3], q[..., k] * sign - q[..., i]
    second = 2 * dnp.arctan2(dnp.hypot(c, d), dnp.hypot(a, b))
    eps = 1e-7 if q.dtype == np.float64 else 1e-3
    at_zero, at_pi = abs(second) <= eps, abs(second - math.pi) <= eps
    half_sum, half_difference = dnp.arctan2(b, a), dnp.arctan2(d, c)
    first, third = half_sum - half_difference, half_sum + half_difference
    locked = dnp.where(at_zero, 2 * half_sum, 2 * half_difference * (-1 if not intrinsic else 1))
    is_locked = at_zero | at_pi
    # The last angle in the given order is set to 0.
    if intrinsic:
        third, first = dnp.where(is_locked, locked, third), dnp.where(is_locked, 0, first)
    else:
        first, third = dnp.where(is_locked, locked, first), dnp.where(is_locked, 0, third)
    if not symmetric:
        third, second = third * sign, second - math.pi / 2
    angles = dnp.stack([third, second, first] if intrinsic else [first, second, third], -1)
    turns = dnp.where(angles > math.pi, 1, dnp.where(angles < -math.pi, -1, 0)).astype(angles.dtype)
    return angles - 2 * math.pi * turns


class Slerp(NamedTuple):
    """Rotations between given ones, each time about one axis at constant speed.

    >>> from didax.scipy.spatial.transform import Rotation, Slerp
    >>> turn = Slerp.init(dnp.array([0.0, 1.0]), Rotation.from_euler("z", dnp.array([[0.0], [1.0]])))
    >>> dnp.round(turn(dnp.array(0.25)).as_rotvec(), 3)
    Array([0.  , 0.  , 0.25], dtype=float32)
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    @api_boundary
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """Return the interpolation of a vector of rotations at ascending times."""
        if not isinstance(rotations, Rotation) or rotations.single or len(rotations) < 2:
            rule = "Slerp takes a vector of two rotations or more."
            raise ArgumentError(
                message(rule, f"rotations: {rotations!r:.100}", fix="Use Rotation.concatenate.")
            )
        t = _real("Slerp.init", times).astype(rotations.quat.dtype)
        if t.shape != (len(rotations),):
            fix = "Pass one time for each rotation."
            raise ArgumentError(
                message("Slerp takes as many times.", f"times: {t.aval}, n: {len(rotations)}", fix=fix)
            )
        before, after = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(t, dnp.diff(t), before, (before.inv() * after).as_rotvec())

    @api_boundary
    def __call__(self, times: ArrayLike) -> Rotation:
        """Return the rotations at one time or at a vector of them.

        Outside the given range the first and the last turn continue.
        """
        t = _real("Slerp", times).astype(self.times.dtype)
        if t.ndim > 1:
            raise ArgumentError(
                message(
                    "Slerp takes a time or a vector of them.", f"times: {t.aval}", fix="Use times.ravel()."
                )
            )
        step = dnp.clip(dnp.searchsorted(self.times, t, side="right") - 1, 0, len(self.rotations) - 1)
        share = (t - self.times[step]) / self.timedelta[step]
        return self.rotations[step] * Rotation.from_rotvec(self.rotvecs[step] * share[..., None])
