"""A double pendulum from its energies alone, and how soon its future cannot be told.

Nobody derives an equation of motion here. The positions of the masses are written as a function of the angles; `jvp`
makes velocities of them, and the Lagrangian is the difference of two energies. `grad`, `hessian` and `jvp` of the
Lagrangian are the equation of Euler and Lagrange, for a chain of any number of links. `lax.scan` follows the motion,
`vmap` follows many pendulums, which start a millionth apart. Prints how well the energy is kept, and when the
pendulums have parted. Writes a picture: the path of the lower mass, and the angles of all pendulums; and beside it, as
a .gif, how they move.

    python examples/pendulum.py [--pendulums 50] [--seconds 20] [--picture out/pendulum.png]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from rich.progress import track

import didax as dx
import didax.numpy as dnp
from didax import lax

GRAVITY = 9.81  # m/s²; links are of 1 m, masses of 1 kg
STEPS = 500  # a second

State = tuple[dx.Array, dx.Array]  # angles and their velocities, one for each link


def positions(angles: dx.Array) -> dx.Array:
    """Where the masses are, in rows: every link starts at the end of the link before it."""
    return dnp.cumsum(dnp.stack([dnp.sin(angles), -dnp.cos(angles)], axis=1), axis=0)


def energies(angles: dx.Array, velocities: dx.Array) -> tuple[dx.Array, dx.Array]:
    """Kinetic and potential energy."""
    places, moves = dx.jvp(positions, (angles,), (velocities,))
    return (moves**2).sum() / 2, GRAVITY * places[:, 1].sum()


def lagrangian(angles: dx.Array, velocities: dx.Array) -> dx.Array:
    kinetic, potential = energies(angles, velocities)
    return kinetic - potential


def slope(state: State) -> State:
    """How angles and velocities change: d/dt of dL/dv is dL/dq, solved for the acceleration."""
    angles, velocities = state
    momentum = lambda q: dx.grad(lagrangian, argnums=1)(q, velocities)
    force = dx.grad(lagrangian)(angles, velocities) - dx.jvp(momentum, (angles,), (velocities,))[1]
    inertia = dx.hessian(lagrangian, argnums=1)(angles, velocities)
    return velocities, dnp.linalg.solve(inertia, force)


def step(state: State, _: None) -> tuple[State, None]:
    """The classical method of Runge and Kutta."""
    h = 1 / STEPS
    ahead = lambda by, k: (state[0] + by * k[0], state[1] + by * k[1])
    k1 = slope(state)
    k2 = slope(ahead(h / 2, k1))
    k3 = slope(ahead(h / 2, k2))
    k4 = slope(ahead(h, k3))
    mean = tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
    return ahead(h, mean), None


@dx.jit
def follow_a_second(states: State) -> tuple[State, State]:
    """The states of all pendulums a second later, and on the way at 50 times."""
    picture = lambda state, _: (lax.scan(step, state, None, length=STEPS // 50)[0],) * 2
    return dx.vmap(lambda state: lax.scan(picture, state, None, length=50))(states)


def draw(path: Path, times: Any, angles: Any) -> None:
    """The path of the lower mass of the first pendulum, and the lower angle of all of them."""
    places = np.asarray(dx.vmap(positions)(angles[0]))
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 2.2))
    count = min(len(times), 500)
    left.plot(*places[:count, -1].T, color="C0", linewidth=0.8)
    left.plot(*np.vstack([np.zeros(2), places[count - 1]]).T, "o-", color="black")
    left.set(
        aspect="equal", title=f"The lower mass for {times[count - 1]:.0f} seconds", xlabel="m", ylabel="m"
    )
    right.plot(times, angles[:, :, -1].T, color="C0", alpha=0.3, linewidth=0.8)
    right.set(
        xlabel="seconds", ylabel="lower angle", title=f"{len(angles)} pendulums that start a millionth apart"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def animate(path: Path, angles: Any) -> None:
    """All pendulums as they move, a frame for every 0.16 seconds."""
    places = np.asarray(dx.vmap(dx.vmap(positions))(angles[:, ::8]))
    places = np.concatenate([np.zeros_like(places[:, :, :1]), places], axis=2)
    figure = Figure(figsize=(3.6, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(-2.1, 2.1), ylim=(-2.1, 2.1), aspect="equal", xticks=[], yticks=[])
    (rods,) = axes.plot([], [], "-", color="0.6", linewidth=0.8)
    (masses,) = axes.plot([], [], "o", color="C0", markersize=4)

    def show(frame: int) -> None:
        at = places[:, frame]
        rods.set_data(*np.pad(at, ((0, 0), (0, 1), (0, 0)), constant_values=np.nan).reshape(-1, 2).T)
        masses.set_data(*at[:, -1].T)
        axes.set_title(f"{frame * 0.16:.1f} seconds")

    FuncAnimation(figure, show, frames=places.shape[1], init_func=lambda: None).save(
        path, PillowWriter(fps=6), dpi=72
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="A double pendulum from its energies alone.")
    parser.add_argument("--pendulums", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--picture", type=Path, default=Path("out/pendulum.png"))
    options = parser.parse_args()
    start = np.linspace(2, 2 + 1e-6 * (options.pendulums - 1), options.pendulums)
    states = (dnp.array(np.stack([start, start + 0.5], axis=1), "float32"), dnp.zeros((options.pendulums, 2)))
    energy = dx.jit(dx.vmap(lambda q, v: sum(energies(q, v))))
    before = energy(*states)
    paths = []
    started = time.perf_counter()
    for _ in track(range(options.seconds), "following the pendulums"):
        states, path = follow_a_second(states)
        paths.append(np.asarray(path[0]))
    seconds = time.perf_counter() - started
    angles = np.concatenate(paths, axis=1)
    times = np.arange(1, angles.shape[1] + 1) / 50
    change = float(abs(energy(*states) / before - 1).max())
    apart = np.ptp(angles[:, :, -1], axis=0) > 1
    print(f"{options.pendulums} pendulums, {options.seconds * STEPS} steps of each in {seconds:.1f} s")
    print(f"largest change of the energy: {change:.4%}")
    print(f"they part after: {times[apart.argmax()]:.1f} s" if apart.any() else "they stay together")
    draw(options.picture, times, angles)
    animate(options.picture.with_suffix(".gif"), angles)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
