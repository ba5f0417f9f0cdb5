"""Noise: how far a program's results move when its operations round otherwise.

Two correct libraries round differently, and a program may magnify that without bound: it subtracts equal numbers,
inverts a singular matrix, branches on a tie. So the reference run is instrumented. After an operation its result, and
before it its operands, are multiplied by 1 + a few roundings, drawn at random (Monte Carlo arithmetic); the noise is
an input of the compiled program, which therefore runs many times at the price of one compilation. A result of the other
library that is no further away than the noise moves it is right; one that noise moves by its own size is not compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as onp

from tests.fuzz.libraries import Library, kind_of
from tests.fuzz.program import NAME, VARIABLE, Program, Statement


def words(text: str) -> list[str]:
    return text.split()


LENGTH = 1024  # of the vector that the noise of arrays is cut from
WEAK = 8  # how many scalars are the noise of weakly typed values, which an array would make strong
ROUNDINGS = 4.0  # the size of the noise, in roundings of the dtype
# Functions computed by series and fractions, which differ in more than the last digits
ROUGH = words("special igamma betainc gamma zeta bessel erf i0 power pow fft geomspace logspace")
ROUGH_ROUNDINGS = 64.0
# Operations that move, choose or compare values, and make no roundings
EXACT = frozenset(
    words(
        """
        indexing reshape ravel transpose swapaxes moveaxis rollaxis permute_dims flip fliplr flipud roll rot90
        squeeze expand_dims broadcast_to broadcast_arrays broadcast broadcast_in_dim broadcast_like
        concatenate concat stack hstack vstack dstack block column_stack split array_split unstack tile repeat
        pad where select select_n take take_along_axis sort argsort top_k argmax argmin max min maximum
        minimum fmax fmin clip abs absolute fabs negative neg positive sign floor ceil round rint around trunc
        equal not_equal less less_equal greater greater_equal eq ne lt le gt ge copy astype asarray array
        zeros_like ones_like full_like full isnan isfinite isinf signbit copysign nextafter spacing
        logical_not logical_and logical_or logical_xor tril triu diag diagonal atleast_1d atleast_2d
        atleast_3d real imag conj conjugate rev slice dynamic_slice dynamic_index_in_dim stop_gradient
        optimization_barrier relu identity searchsorted digitize isin bincount count_nonzero any all append
        insert delete resize lexsort sort_key_val nanmax nanmin nanargmax nanargmin amax amin cummax cummin
        reduce_max reduce_min unique union1d
        """
    )
)
# Operations on each element alone, correctly rounded or nearly so: only their results are in doubt
ONCE = frozenset(
    words(
        """add subtract sub multiply mul divide true_divide div floor_divide mod remainder fmod rem divmod square sqrt
        power pow sin cos exp tanh reciprocal integer_pow operator"""
    )
)


def noisy_function(lib: Library, program: Program) -> Callable[..., Callable[..., Any]]:
    """A function of (vector, scalars), which `draw_noise` draws, that returns the program with this noise."""
    lines = [line for i, s in enumerate(program.statements) for line in noisy_lines(s, i * 8)]
    header = f"def program({', '.join(program.inputs)}):"
    text = [header, *[f"    {line}" for line in (*lines, f"return [{', '.join(program.results)}]")]]

    def with_noise(vector: Any, scalars: Sequence[Any]) -> Callable[..., Any]:
        add = lambda x, slot, roundings: add_noise(lib, x, slot, roundings, vector, scalars)
        return lib.function(text, "program", noisy=add)

    return with_noise


def noisy_lines(statement: Statement, slot: int) -> list[str]:
    """The statement with noise on its operands and results, which is read from `slot` on."""
    names = NAME.findall(statement.text)
    operation = names[0].split(".")[-1] if names else "indexing" if "[" in statement.text else "operator"
    if operation in EXACT and len(names) == 1:
        return statement.lines()
    whole = "\n".join(statement.lines())  # with its blocks, which get no noise of their own
    rough = any(part in whole for part in ROUGH)
    roundings = ROUGH_ROUNDINGS if rough else ROUNDINGS
    text = statement.text
    # An operand that is used twice gets noise twice: it would cancel in cross(x, x).
    if operation not in ONCE:
        slots = itertools.count(slot + 1)
        text = VARIABLE.sub(lambda m: f"noisy({m.group()}, {next(slots)}, {roundings})", text)
    changed = Statement(statement.targets, text, statement.blocks, statement.single)
    return changed.lines(f"noisy({{}}, {slot}, {roundings})")


def add_noise(lib: Library, x: Any, slot: int, roundings: float, vector: Any, scalars: Sequence[Any]) -> Any:
    if isinstance(x, list):
        return [add_noise(lib, y, slot + i, roundings, vector, scalars) for i, y in enumerate(x)]
    np = lib.namespace["np"]
    type_ = lib.type_of(x if hasattr(x, "dtype") else np.asarray(x))
    if kind_of(type_.dtype) not in "fc" or type_.dtype.startswith("float8"):
        return x
    amount = float(ml_dtypes.finfo(type_.dtype).eps) * roundings
    if type_.weak:
        return x * (1 + scalars[slot % WEAK] * amount)
    size = int(onp.prod(type_.shape))
    start = (slot * 37) % (LENGTH - 2 * size)
    n = vector[start : start + size].reshape(type_.shape)
    if kind_of(type_.dtype) == "f":
        return x * (1 + n.astype(type_.dtype) * amount).astype(type_.dtype)
    m = vector[start + size : start + 2 * size].reshape(type_.shape)  # moves the phase, too
    factor = 1 + amount * (n.astype(type_.dtype) + 1j * m.astype(type_.dtype))
    return np.where(np.isfinite(x), x * factor, x)


def draw_noise(rng: onp.random.Generator) -> tuple[Any, list[Any]]:
    """Arguments for `noisy_function`."""
    vector = rng.uniform(-1, 1, LENGTH).astype("float32")
    return vector, [float(x) for x in rng.uniform(-1, 1, WEAK)]
