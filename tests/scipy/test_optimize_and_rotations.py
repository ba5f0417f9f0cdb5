"""didax.scipy.optimize and spatial.transform: known minima, and scipy's rotations."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import jax
import jax.scipy.optimize
import numpy as np
import pytest
import scipy.spatial.transform

import didax as dx
import didax.numpy as dnp
from didax.core.errors import ArgumentError
from didax.scipy import optimize
from didax.scipy.spatial.transform import Rotation, Slerp
from tests.checks import assert_close
from tests.scipy.families import check_batches, check_derivatives

LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
Theirs = scipy.spatial.transform.Rotation
RNG = np.random.default_rng(0)


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("method", ["BFGS", LIMITED])
def test_minima_are_found(method: str) -> None:
    problems: list[tuple[Any, Any, Any]] = [
        (rosenbrock, [-1.2, 1.0, -0.5, 2.0], [1.0, 1.0, 1.0, 1.0]),
        (lambda x: ((x - 1) ** 2 * dnp.arange(1, 4)).sum(), [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
        (lambda x: -dnp.exp(-(x**2).sum() / 2), [1.0, 1.0], [0.0, 0.0]),
    ]
    with dx.enable_x64(True):
        for f, start, minimum in problems:
            found = optimize.minimize(f, dnp.array(start), method=method)
            assert_close(found.x, np.array(minimum), 1e-4, 1e-4)
            assert found.success
            assert found.status == 0
            assert abs(found.jac).max() < 1e-3
    batch = dx.vmap(lambda x: optimize.minimize(rosenbrock, x, method=method))(dnp.float32([[0, 0], [2, 2]]))
    assert_close(batch.x, np.ones((2, 2), "float32"), 1e-2)
    few = optimize.minimize(rosenbrock, dnp.zeros(2), method=method, options={"maxiter": 2})
    assert few.status == 1
    assert not few.success
    assert few.nit == 2


def test_results_have_the_types_of_jax() -> None:
    for x64, method in itertools.product((False, True), ("BFGS", LIMITED)):
        with dx.enable_x64(x64), jax.enable_x64(x64):
            found, wanted = [
                lib.eval_shape(
                    lambda x, lib=lib: lib.scipy.optimize.minimize(rosenbrock, x, method=method), np.ones(2)
                )
                for lib in (dx, jax)
            ]
        for x, y in zip(found, wanted, strict=True):
            assert (x is None) == (y is None)
            assert x is None or (x.dtype, x.weak_type) == (y.dtype, y.weak_type)


def test_errors_of_minimize() -> None:
    for call, text in (
        (lambda: optimize.minimize(rosenbrock, np.zeros(2), method="newton"), "minimize has two methods"),
        (
            lambda: optimize.minimize(rosenbrock, np.zeros((2, 2)), method="BFGS"),
            "minimize starts from a vector",
        ),
        (
            lambda: optimize.minimize(rosenbrock, np.zeros(2), method="BFGS", options={"step": 1}),
            "no such option",
        ),
        (
            lambda: optimize.minimize(rosenbrock, np.zeros(2) * 1j, method="BFGS"),
            "from a vector of real numbers",
        ),
        (
            lambda: optimize.minimize(rosenbrock, np.zeros(2), method=LIMITED, options={"maxcor": 0}),
            "remembers one step or more",
        ),
    ):
        with pytest.raises(ArgumentError, match=text):
            call()

    def per_element(x: Any) -> Any:
        return x * x

    with pytest.raises(TypeError, match=r"return a scalar\.\n  function: .*per_element \("):
        optimize.minimize(per_element, np.zeros(2), method="BFGS")
    with pytest.raises(TypeError, match="further arguments as a tuple"):
        optimize.minimize(rosenbrock, np.zeros(2), 1, method="BFGS")  # type: ignore[arg-type]


SEQUENCES = ("xyz", "zyx", "XYZ", "zxz", "ZXZ", "yxz", "ZYX", "yzy", "xzx")


def test_rotations_are_those_of_scipy() -> None:
    theirs = Theirs.random(7, random_state=0)
    q, v = theirs.as_quat(), RNG.normal(size=(7, 3))
    with dx.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy's, of angles that are not unique
        ours = Rotation.from_quat(q)
        for name in ("as_matrix", "as_rotvec", "as_mrp", "magnitude"):
            assert_close(getattr(ours, name)(), getattr(theirs, name)(), 1e-9, 1e-12, name)
        for made in (
            Rotation.from_matrix(theirs.as_matrix()), Rotation.from_rotvec(theirs.as_rotvec()),
            Rotation.from_mrp(theirs.as_mrp()), ours * Rotation.identity(), ours.inv().inv(),
            Rotation.from_quat(q.tolist()), Rotation.from_matrix(theirs.as_matrix().tolist()),
        ):  # fmt: skip
            assert_close(made.as_matrix(), theirs.as_matrix(), 1e-9, 1e-12)
        assert_close(ours.as_quat(canonical=True), theirs.as_quat(canonical=True), 1e-12)
        for inverse in (False, True):
            assert_close(ours.apply(v, inverse), theirs.apply(v, inverse), 1e-9, 1e-12)
        assert_close(abs((ours.mean().quat * theirs.mean().as_quat()).sum()), np.float64(1), 1e-9)
        for seq in SEQUENCES:
            angles = theirs.as_euler(seq)
            assert_close(ours.as_euler(seq), angles, 1e-8, 1e-9, seq)
            assert_close(Rotation.from_euler(seq, angles).as_matrix(), theirs.as_matrix(), 1e-9, 1e-12, seq)
            for second in (0, math.pi / 2, -math.pi / 2, math.pi):  # where only a sum of angles matters
                locked = Theirs.from_euler(seq, (0.3, second, 0.4))
                again = Rotation.from_euler(seq, Rotation.from_quat(locked.as_quat()).as_euler(seq))
                assert_close(again.as_matrix(), locked.as_matrix(), 1e-6, 1e-6, f"{seq} {second}")
        times, at = np.arange(7.0), np.array([0, 0.3, 2.5, 6.0])
        wanted = scipy.spatial.transform.Slerp(times, theirs)(at).as_matrix()
        assert_close(Slerp.init(times, ours)(at).as_matrix(), wanted, 1e-9, 1e-12)
    drawn = Rotation.random(dx.random.key(0), 5)
    assert len(drawn) == 5
    assert drawn[0].single
    assert len(Rotation.concatenate([drawn, drawn[0]])) == 6


def test_derivatives_and_batches_of_rotations() -> None:
    v = RNG.normal(size=(2, 3))
    check_derivatives({
        "rotvec": (lambda v: Rotation.from_rotvec(v).as_matrix(), v), "back": (
            lambda v: Rotation.from_rotvec(v).as_rotvec(), v), "at the identity": (
            lambda v: Rotation.from_rotvec(v).as_rotvec(), np.zeros(3)),
        "euler": (lambda a: Rotation.from_euler("xyz", a).as_euler("xyz"), v / 3),
    }, order=1)  # fmt: skip
    w = v.astype("float32")
    check_batches({"apply": (lambda v: Rotation.from_rotvec(v).apply(v + 1), w),
                   "euler": (lambda v: Rotation.from_rotvec(v).as_euler("zyx"), w)})  # fmt: skip


def test_rotations_at_the_ends_of_their_ranges() -> None:
    with dx.enable_x64(True):
        halves = np.array([[0.005, 0, 0], [0, 0.0099, 0], [0, 0, 0.0101], [0.5, 0.5, 0.5]])
        q = np.concatenate([halves, np.sqrt(1 - (halves**2).sum(-1, keepdims=True))], -1)
        theirs = Theirs.from_quat(q)
        assert_close(Rotation.from_quat(q).as_rotvec(), theirs.as_rotvec(), 1e-15, 1e-17)
        half_turn = Rotation.from_quat(np.array([1.0, 0, 0, 0]))
        assert np.asarray(half_turn.as_euler("xyz")).tolist() == [math.pi, 0, 0]
        power = one = Rotation.from_quat(q[3])
        for _ in range(200):
            power = power * one  # the length of a product stays 1
        assert_close(power.as_matrix(), (theirs[3] ** 201).as_matrix(), 1e-12, 1e-12)
    arrays = Rotation.from_quat(RNG.normal(size=(2, 3, 4)).astype("float32"))  # any number of axes
    assert (arrays * arrays.inv()).as_matrix().shape == (2, 3, 3, 3)
    assert arrays[0].apply(np.ones(3)).shape == (3, 3) and len(arrays) == 2
    assert Rotation.from_euler("xyz", arrays.as_euler("xyz")).as_rotvec().shape == (2, 3, 3)
    assert Slerp.init(np.arange(2), arrays[0][:2])(0.5).quat.dtype == "float32"


def test_errors_of_rotations() -> None:
    one = Rotation.identity()
    for call, error, text in (
        (lambda: Rotation.from_quat(np.ones(3)), ArgumentError, "from_quat takes vectors of 4 numbers"),
        (lambda: Rotation.from_quat(np.ones(4) * 1j), ArgumentError, "Rotation.from_quat takes real numbers"),
        (lambda: Rotation.from_matrix(np.ones((2, 2))), ArgumentError, "takes 3 x 3 matrices"),
        (lambda: Rotation.from_euler("xxy", np.ones(3)), ArgumentError, "Euler angles need a sequence of axes"),
        (lambda: Rotation.from_euler("xY", np.ones(2)), ArgumentError, "Euler angles need a sequence of axes"),
        (lambda: Rotation.from_euler("xyz", np.ones(2)), ArgumentError, "takes an angle for each axis"),
        (lambda: len(one), TypeError, "One rotation has no length"),
        (lambda: one[0], TypeError, "One rotation cannot be indexed"),
        (lambda: Slerp.init(np.zeros(1), one), ArgumentError, "Slerp takes a vector of two rotations"),
        (lambda: one * 2.0, TypeError, "A rotation is multiplied with rotations"),
        (lambda: Slerp.init(np.arange(2), Rotation.concatenate([one, one]))(np.ones((2, 2))), ValueError, "a time or"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()
