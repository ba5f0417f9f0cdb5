"""`check(program)`: runs a program in both libraries and says where they differ.

1. Each statement alone is traced by Didax: shapes, dtypes, weak types and refusals have to be jax's.
2. The program under its transformations runs in jax, compiled; in Didax, eagerly and compiled. Where results differ by
   more than a few roundings, noise (noise.py) tells whether the program magnifies these.
3. Derivatives of programs in float64 are compared with finite differences where these are trustworthy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as onp

from tests.fuzz.libraries import Refusal, didax_, jax_, kind_of
from tests.fuzz.noise import draw_noise, noisy_function
from tests.fuzz.program import Block, Program, Statement, Type
from tests.fuzz.transformations import apply_stack
from tests.quickly import COMPILE_QUICKLY

DRAWS, MORE_DRAWS = 3, 15  # of noise; the latter before a difference is believed
MARGIN = 16.0  # how many times further than the noise a result may be


@dataclass(frozen=True)
class Finding:
    """A difference: what kind it is, the operation or transformations it is about, what was seen."""

    kind: str
    where: str
    message: str
    program: Program


@dataclass
class Outcome:
    """What the check of a program gave.

    `elements` counts the elements of its results, `unstable` those that differ, but differ under noise as well.
    """

    findings: list[Finding] = field(default_factory=list)
    elements: int = 0
    unstable: int = 0
    refused: bool = False  # by both libraries


def check(program: Program, compile_too: bool = True) -> Outcome:
    with jax_.options(program.x64), didax_.options(program.x64):
        outcome = Outcome(check_statements(program))
        if program.statements and all(f.kind == "jax refuses" for f in outcome.findings):
            check_values(program, outcome, compile_too)
    return outcome


# --- Types and refusals -------------------------------------------------------------------------------------------


def check_statements(program: Program) -> list[Finding]:
    """Statements that have other types in Didax than in jax, or that only one of the two libraries refuses."""
    findings = []
    for statement in program.statements:
        wanted = [program.types[t] for t in statement.targets]
        try:
            found, _ = didax_.types_of(statement, program.types)
        except Refusal as e:
            findings.append(statement_finding("didax refuses", statement, describe(e), program))
            continue
        if found != wanted:
            shown = f"didax {', '.join(map(str, found))}; jax {', '.join(map(str, wanted))}"
            kind = (
                "weak type"
                if [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in wanted]
                else "type"
            )
            findings.append(statement_finding(kind, statement, shown, program))
    for statement in program.refused:
        try:
            found, _ = didax_.types_of(statement, program.types)
        except Refusal:
            continue
        theirs = describe(attempt(lambda: jax_.types_of(statement, program.types)))
        shown = f"{theirs[:200]}; didax {', '.join(map(str, found))}"
        findings.append(statement_finding("jax refuses", statement, shown, program))
    return findings


def statement_finding(kind: str, statement: Statement, message: str, program: Program) -> Finding:
    """The finding's program is the statement alone, with operands that have the right types."""
    inputs = {name: program.inputs.get(name, some_value(program.types[name])) for name in statement.used()}
    alone = replace(
        program, inputs=inputs, statements=(statement,), results=statement.targets, stack=(), refused=()
    )
    if kind == "jax refuses":
        alone = replace(alone, statements=(), refused=(statement,))
    return Finding(kind, statement.operation(), message, alone)


def some_value(type_: Type) -> Any:
    """A value of a type, for a program that is cut out of another."""
    if type_.dtype == "key":
        return None
    numbers = onp.full(type_.shape, 1.5 if kind_of(type_.dtype) in "fc" else 1).astype(type_.dtype)
    return numbers.item() if type_.weak and not type_.shape else numbers


def describe(e: Any) -> str:
    return f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"


# --- Values -------------------------------------------------------------------------------------------------------


def check_values(program: Program, outcome: Outcome, compile_too: bool) -> None:
    where = "/".join(name for name, _ in program.stack)
    xs = list(program.inputs.values())
    theirs = attempt(lambda: run_jax(program))
    transformed = apply_stack(didax_.root, didax_.program(program), program.stack)
    # Scalars have methods, too.
    eager = lambda *xs: transformed(*[didax_.namespace["np"].asarray(x) for x in xs])
    ways: list[tuple[str, Callable[..., Any]]] = [("eager", eager)]
    if compile_too:
        ways.append(("jit", didax_.root.jit(transformed)))
    noise = Noise(program, xs)
    for way, f in ways:
        ours = attempt(lambda: f(*didax_arguments(xs)))
        if isinstance(theirs, Refusal) and isinstance(ours, Refusal):
            outcome.refused = True
            continue
        if isinstance(theirs, Refusal) or isinstance(ours, Refusal):
            kind, e = ("jax refuses", theirs) if isinstance(theirs, Refusal) else ("didax refuses", ours)
            outcome.findings.append(Finding(kind, f"{way} {where}: {type(e).__name__}", describe(e), program))
            return
        finding = compare(program, way, where, ours, theirs, [], outcome)
        for count in (DRAWS, MORE_DRAWS):
            if finding and finding.kind.startswith("value"):
                finding = compare(program, way, where, ours, theirs, noise.results(count), outcome)
        if finding:
            outcome.findings.append(finding)
            return
    if compile_too and not program.stack and program.x64 and not isinstance(theirs, Refusal):
        check_finite_differences(program, ways[-1][1], outcome)


def run_jax(program: Program) -> list[Any]:
    plain = apply_stack(jax_.root, jax_.program(program), program.stack)
    results = jax_.root.jit(plain, compiler_options=COMPILE_QUICKLY)(*program.inputs.values())
    return jax_.root.block_until_ready(results)  # what fails while it runs is a refusal, too


class Noise:
    """Results of the program in jax under noise; compiled at first use, as most programs agree without."""

    def __init__(self, program: Program, xs: Sequence[Any]) -> None:
        self.program, self.xs = program, xs
        self.rng = onp.random.default_rng(0)
        self.reference: Callable[..., Any] | None = None
        self.drawn: list[list[Any]] = []

    def results(self, count: int) -> list[list[Any]]:
        if self.reference is None:
            noisy, stack = noisy_function(jax_, self.program), self.program.stack
            f = lambda v, s, *xs: apply_stack(jax_.root, noisy(v, s), stack)(*xs)
            self.reference = jax_.root.jit(f, compiler_options=COMPILE_QUICKLY)
        while len(self.drawn) < count:
            drawn = self.reference(*draw_noise(self.rng), *self.xs)
            self.drawn.append([onp.asarray(y) for y in drawn])
        return self.drawn


def attempt(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Refusal as e:
        return e


def didax_arguments(xs: Sequence[Any]) -> list[Any]:
    return [didax_.namespace["np"].asarray(x) if isinstance(x, onp.ndarray) else x for x in xs]


def compare(
    program: Program, way: str, where: str, ours: Any, theirs: Any, noisy: list[list[Any]], outcome: Outcome
) -> Finding | None:
    """The first result that differs, if any does."""
    if len(ours) != len(theirs):
        return Finding(f"structure {way}", where, f"{len(ours)} results, jax {len(theirs)}", program)
    rounding = coarsest(program)
    floor = rounding * MARGIN if program.stack else 0.0  # derivatives cancel in ways that noise does not show
    outcome.elements = outcome.unstable = 0
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        place = where or operation_of(program, program.results[i])
        found, wanted = didax_.type_of(a), jax_.type_of(b)
        if found != wanted:
            kind = "weak type" if (found.shape, found.dtype) == (wanted.shape, wanted.dtype) else "type"
            return Finding(f"{kind} {way}", place, f"result {i}: didax {found}, jax {wanted}", program)
        wrong, unstable = differences(onp.asarray(a), onp.asarray(b), [n[i] for n in noisy], rounding, floor)
        outcome.elements += wrong.size
        outcome.unstable += unstable
        if wrong.any():
            message = f"result {i}: didax {onp.asarray(a)[wrong][:4]}, jax {onp.asarray(b)[wrong][:4]}"
            return Finding(f"value {way}", place, message, program)
    return None


def operation_of(program: Program, variable: str) -> str:
    return next((s.operation() for s in program.statements if variable in s.targets), variable)


def coarsest(program: Program) -> float:
    """Relative rounding of the coarsest dtype that the program computes in."""
    eps = [
        float(ml_dtypes.finfo(t.dtype).eps)
        for t in (program.types[name] for name in all_variables(program) if name in program.types)
        if kind_of(t.dtype) in "fc"
    ]
    return max(eps, default=2.3e-16 if program.x64 else 1.2e-7)


def all_variables(program: Program) -> list[str]:
    def of(statements: Sequence[Statement]) -> list[str]:
        names = [t for s in statements for t in s.targets]
        blocks: list[Block] = [b for s in statements for b in s.blocks]
        return names + [n for b in blocks for n in (*b.params, *of(b.statements))]

    return [*program.inputs, *of(program.statements)]


def differences(a: Any, b: Any, noisy: list[Any], rounding: float, floor: float = 0.0) -> tuple[Any, int]:
    """Which elements differ by more than rounding explains; how many differ that are too unstable to tell."""
    name = str(b.dtype)
    if kind_of(name) not in "fc":
        unstable = onp.any([n != b for n in noisy], axis=0) if noisy else onp.zeros(b.shape, bool)
        return (a != b) & ~unstable, int(((a != b) & unstable).sum())
    info, wide = ml_dtypes.finfo(name), onp.complex128 if kind_of(name) == "c" else onp.float64
    a, b, *noisy = [onp.asarray(x).astype(wide) for x in (a, b, *noisy)]
    parts = [onp.real, onp.imag] if kind_of(name) == "c" else [onp.asarray]
    pairs = [differences_of_reals(f(a), f(b), [f(n) for n in noisy], info, rounding, floor) for f in parts]
    return onp.any([wrong for wrong, _ in pairs], axis=0), sum(unstable for _, unstable in pairs)


def differences_of_reals(
    a: Any, b: Any, noisy: list[Any], info: Any, rounding: float, floor: float = 0.0
) -> tuple[Any, int]:
    """`differences` for arrays of real numbers in float64, whose own dtype `info` describes."""
    finite = onp.isfinite(b)
    same_class = lambda x: (onp.isfinite(x) & finite) | (x == b) | (onp.isnan(x) & onp.isnan(b))
    with onp.errstate(all="ignore"):
        unstable = finite & (abs(b) > float(info.max) / 4)  # it may overflow elsewhere
        spread = onp.zeros(b.shape)
        for n in noisy:
            unstable |= ~same_class(n)
            spread = onp.fmax(spread, onp.where(finite & onp.isfinite(n), abs(n - b), 0))
        scale = float(onp.max(abs(b), initial=0.0, where=finite))
        tolerance = MARGIN * (
            onp.fmax(spread, spread.mean() if spread.size else 0.0) + max(rounding, float(info.eps)) * scale
        )
        tolerance += floor + 8 * float(info.tiny)
        if noisy:
            unstable |= finite & (tolerance > 0.1 * scale + floor + 16 * float(info.tiny))
        wrong = ~same_class(a) | (finite & (abs(a - b) > tolerance))
    return wrong & ~unstable, int((wrong & unstable).sum())


# --- Finite differences -------------------------------------------------------------------------------------------

STEP = 1e-5
# Functions whose derivatives are not those of their values
OTHER_DERIVATIVES = (
    "custom_jvp",
    "custom_vjp",
    "custom_gradient",
    "stop_gradient",
    "pure_callback",
    "reduce_precision",
)


def check_finite_differences(program: Program, f: Callable[..., Any], outcome: Outcome) -> None:
    """jvp against differences to either side, where these agree with each other and no noise is magnified."""
    text = "\n".join(program.lines())
    wide = [k for k, v in program.inputs.items() if program.types[k].dtype == "float64"]
    if not wide or any(name in text for name in OTHER_DERIVATIVES) or coarsest(program) > 1e-15:
        return
    lib = didax_.root
    xs = dict(zip(program.inputs, didax_arguments(list(program.inputs.values())), strict=True))
    shifted = {
        k: onp.asarray(xs[k]) + 0.0137 * onp.cos(onp.arange(onp.size(xs[k]))).reshape(onp.shape(xs[k]))
        for k in wide
    }
    tangents = {k: onp.sin(2.0 + onp.arange(onp.size(x))).reshape(onp.shape(x)) for k, x in shifted.items()}

    def at(*values: Any) -> list[Any]:
        return f(*{**xs, **dict(zip(wide, values, strict=True))}.values())

    point, along = tuple(shifted.values()), tuple(tangents.values())
    plus, here, minus = [
        at(*[x + s * STEP * t for x, t in zip(point, along, strict=True)]) for s in (1, 0, -1)
    ]
    derivatives = attempt(lambda: lib.jvp(at, point, along)[1])
    if isinstance(derivatives, Refusal):
        outcome.findings.append(
            Finding("didax refuses", f"jvp: {type(derivatives).__name__}", describe(derivatives), program)
        )
        return
    for i, d in enumerate(derivatives):
        if didax_.type_of(here[i]).dtype != "float64":
            continue
        with onp.errstate(all="ignore"):
            p, h, m, d = [onp.asarray(y, "float64") for y in (plus[i], here[i], minus[i], d)]
            forward, backward = (p - h) / STEP, (h - m) / STEP
            scale = max(1.0, float(onp.max(abs(h), initial=0, where=onp.isfinite(h))))
            smooth = abs(forward - backward) < 1e-3 * (abs(forward) + 1e-3)
            wrong = smooth & ~(abs(d - (forward + backward) / 2) < 1e-2 * abs(forward) + 1e-4 * scale)
        if wrong.any():
            message = f"result {i}: jvp {d[wrong][:3]}, finite differences {forward[wrong][:3]}"
            outcome.findings.append(
                Finding("finite differences", operation_of(program, program.results[i]), message, program)
            )
            return
