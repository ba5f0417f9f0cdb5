"""Do the tests still see what they must? Each mutation is a fault in the library, which tests named here have to find.

    make mutations                              all of them, one after another
    .venv/bin/python -m tests.mutations scan    those whose name holds the word

A copy of the working tree gets the fault, and its tests run there until one fails: those that `make test` runs, so that
whoever changes the library sees the fault within minutes. Run it after a change that makes the tests cheaper or fewer,
and give a new kind of fault a line. A mutation names the tests that its reader would run; `tests/test_mutations.py`
checks that each fault still has its place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent


class Mutation(NamedTuple):
    """`text` in a file of the library becomes `fault`; `tests` are arguments of pytest."""

    name: str
    file: str
    text: str
    fault: str
    tests: str


OPERATIONS = "tests/test_operations.py -k"
ELEMENTWISE, LOOPS = "didax/primitives/elementwise", "didax/primitives/control_flow"
SHAPE, SLICING = "didax/primitives/shape.py", "didax/primitives/slicing.py"
REDUCED, DTYPES, JET = "didax/primitives/reduced.py", "didax/core/dtypes.py", "didax/transforms/jet.py"

MUTATIONS = [
    Mutation(
        "transpose of split",
        SLICING,
        "[concatenate(list(map(instantiate, cts)), axis)]",
        "[concatenate(list(map(instantiate, cts))[::-1], axis)]",
        f"{OPERATIONS} split",
    ),
    Mutation(
        "jvp of sin",
        f"{ELEMENTWISE}/elementary.py",
        "jvp=lambda t, y, x: mul(t, cos(x))",
        "jvp=lambda t, y, x: neg(mul(t, cos(x)))",
        f"{OPERATIONS} elementwise-sin-",
    ),
    Mutation(
        "jvp of div by its second operand",
        f"{ELEMENTWISE}/arithmetic.py",
        "neg(mul(t, div(z, y)))",
        "neg(mul(t, div(x, y)))",
        f"{OPERATIONS} elementwise-div-",
    ),
    Mutation(
        "jvp of integer_pow",
        f"{ELEMENTWISE}/powers.py",
        "y=y - 1), y))]",
        "y=y - 1), 2))]",
        f"{OPERATIONS} elementwise-integer_pow-",
    ),
    Mutation(
        "jvp of tanh",
        f"{ELEMENTWISE}/elementary.py",
        "jvp=lambda t, y, x: mul(t, _one_minus_square(y))",
        "jvp=lambda t, y, x: mul(t, _one_minus_square(x))",
        f"{OPERATIONS} elementwise-tanh-",
    ),
    Mutation(
        "sign of a transpose",
        f"{ELEMENTWISE}/arithmetic.py",
        "transpose=lambda ct, x: neg(ct)",
        "transpose=lambda ct, x: mul(ct, 1)",
        "tests/test_compositions.py",
    ),
    Mutation(
        "transpose of transpose",
        SHAPE,
        "transpose(ct, tuple(int(i) for i in np.argsort(permutation)))",
        "transpose(ct, permutation)",
        f"{OPERATIONS} shape-transpose",
    ),
    Mutation(
        "batch of transpose",
        SHAPE,
        "(dim, *(others[i] for i in permutation))), 0",
        "(dim, *(others[i] for i in permutation[::-1]))), 0",
        f"{OPERATIONS} shape-transpose",
    ),
    Mutation(
        "axis of a batched reduction",
        REDUCED,
        "inner = tuple(i + (i >= dim) for i in axes)",
        "inner = tuple(i + (i > dim) for i in axes)",
        f"{OPERATIONS} reductions",
    ),
    Mutation(
        "batch axis that a reduction leaves",
        REDUCED,
        "return inner, dim - sum(i < dim for i in inner)",
        "return inner, dim",
        f"{OPERATIONS} reductions",
    ),
    Mutation(
        "batch of rev",
        SLICING,
        "dimensions=tuple(i + (i >= dims[0]) for i in dimensions)",
        "dimensions=dimensions",
        f"{OPERATIONS} slicing",
    ),
    Mutation(
        "lowering of a strided slice",
        "didax/xla/text.py",
        'f"{i}:{j}:{k}" if k > 1',
        'f"{i}:{j}:{k}" if k > 2',
        f"{OPERATIONS} slicing",
    ),
    Mutation(
        "transpose of dynamic_slice",
        SLICING,
        "zeros(x.aval.strip_weak_type()), ct, *starts",
        "zeros(x.aval.strip_weak_type()), ct, *[np.int32(0)] * len(starts)",
        f"{OPERATIONS} slicing",
    ),
    Mutation(
        "transpose of cumsum",
        "didax/primitives/cumulative.py",
        "self.bind(ct, axis=axis, reverse=not reverse)",
        "self.bind(ct, axis=axis, reverse=reverse)",
        f"{OPERATIONS} cumulative",
    ),
    Mutation(
        "batch of cumsum",
        "didax/primitives/cumulative.py",
        "axis=axis + (axis >= dims[0])",
        "axis=axis + (axis > dims[0])",
        f"{OPERATIONS} cumulative",
    ),
    Mutation(
        "lowering of sort",
        "didax/primitives/sort.py",
        'lambda body, pairs: body.compare("LT", *pairs[0])',
        'lambda body, pairs: body.compare("GT", *pairs[0])',
        f"{OPERATIONS} sort",
    ),
    Mutation(
        "NaN in extrema of large arrays",
        "didax/xla/text.py",
        "if not dtypes.is_float(dtype) or dtype.itemsize == 1 or not ctx.module.on_one_cpu:",
        "if True:",
        "tests/primitives/test_reductions.py -k keep_nan",
    ),
    Mutation(
        "poles of the gamma function",
        "didax/primitives/gamma_in_double.py",
        "where(eq(size, _whole(size)), like(math.nan, x), mirrored)",
        "mirrored",
        f"{OPERATIONS} fitted-gamma",
    ),
    Mutation(
        "order of a reversed scan",
        f"{LOOPS}/lowering.py",
        "return self.length - 1 - i if self.reverse else i",
        "return self.length - i if self.reverse else i",
        "tests/test_loops.py",
    ),
    Mutation(
        "length of a scan, off by one",
        f"{LOOPS}/lowering.py",
        "values[0], region.scalar(looped, self.index_dtype)",
        "values[0], region.scalar(looped - unroll, self.index_dtype)",
        "tests/test_loops.py",
    ),
    Mutation(
        "transpose of a scan",
        f"{LOOPS}/scan.py",
        "*nonzero_only(ct_ys)], reverse=True)",
        "*nonzero_only(ct_ys)])",
        f"{OPERATIONS} loops-scan",
    ),
    Mutation(
        "branch of a cond",
        "didax/primitives/control_flow/cond.py",
        "return run(branches[int(index)], args",
        "return run(branches[0], args",
        "tests/debug tests/primitives/test_cond.py",
    ),
    Mutation(
        "batched cond",
        "didax/primitives/control_flow/cond.py",
        "eq(index, np.int32(k))",
        "eq(index, np.int32(0))",
        "tests/test_compositions.py tests/primitives/test_cond.py",
    ),
    Mutation(
        "dead code with an effect",
        "didax/passes/simplify.py",
        "if needed.isdisjoint(eqn.outvars) and not eqn.effects:",
        "if needed.isdisjoint(eqn.outvars):",
        "tests/test_effects.py",
    ),
    Mutation(
        "a pass that drops an equation in use",
        "didax/passes/simplify.py",
        "for x in eqn.invars:\n            if type(x) is Var:\n                needed.add(x)",
        "for x in eqn.invars[:2]:\n            if type(x) is Var:\n                needed.add(x)",
        "tests/test_random_programs.py",
    ),
    Mutation(
        "a sum that a pass moves out of a loop",
        "didax/passes/loops/contract.py",
        "total = add(total, part)",
        "total = part",
        "tests/primitives/test_loop_passes.py",
    ),
    Mutation(
        "a key that is drawn from again",
        "didax/passes/key_reuse.py",
        "if purpose == DRAWN:",
        "if purpose == UNKNOWN:",
        "tests/random/test_key_reuse.py",
    ),
    Mutation(
        "elements that a sum depends on",
        "didax/passes/sparsity.py",
        "sum(found[1:], found[0]) if found",
        "found[0] if found",
        "tests/test_sparse_derivatives.py",
    ),
    Mutation(
        "what a padded reduction finds beyond the real length",
        "didax/primitives/padded.py",
        "return self.bind(eqn.real(x, aval, axes, identity(self, aval.dtype)), axes=axes, **params)",
        "return self.bind(x, axes=axes, **params)",
        "tests/api/test_buckets.py",
    ),
    Mutation(
        "batch axis that is moved",
        "didax/transforms/batching.py",
        "return x if dim == destination else array_ops.move_axis(x, dim, destination)",
        "return x",
        "tests/api/test_vmap.py",
    ),
    Mutation(
        "weak types of cotangents",
        "didax/transforms/weak_types.py",
        "return [a.strip_weak_type() if s else a for",
        "return [a for",
        "tests/api/test_autodiff.py",
    ),
    Mutation(
        "jvp of beta",
        "didax/primitives/beta.py",
        "lambda t, y, a, b: mul(t, mul(y, digamma_drop(b, a))),",
        "lambda t, y, a, b: mul(t, mul(y, digamma_drop(a, b))),",
        f"{OPERATIONS} fitted-beta-",
    ),
    Mutation(
        "merging 0.0 with -0.0",
        "didax/passes/simplify.py",
        "np.asarray(x.val, x.aval.dtype).tobytes())",
        "x.val)",
        "tests/test_eager.py",
    ),
    Mutation(
        "sum of cotangents",
        "didax/transforms/transpose.py",
        "add(sums[out], ct) if out in sums else ct",
        "ct",
        "tests/api/test_autodiff.py tests/test_compositions.py tests/test_random_programs.py",
    ),
    Mutation(
        "weak type of a join",
        DTYPES,
        "return default_dtype(_WEAK[node]), True",
        "return default_dtype(_WEAK[node]), False",
        "tests/core/test_dtypes.py",
    ),
    Mutation(
        "limits of integer dtypes",
        "didax/numpy/scalar_types.py",
        "int(limits.min), int(limits.max)",
        "int(limits.min), int(limits.max) - 1",
        "tests/numpy/test_array_api.py didax/numpy/scalar_types.py",
    ),
    Mutation(
        "strict promotion",
        DTYPES,
        "if all(d == result or _node(d, weak) in _WEAK",
        "if all(True or _node(d, weak)",
        "tests/core/test_dtypes.py",
    ),
    Mutation(
        "join of three dtypes",
        DTYPES,
        "for pair in rest[:-1]:",
        "for pair in rest[:-2]:",
        "tests/core/test_dtypes.py",
    ),
    Mutation(
        "a key of transformed programs without the options",
        "didax/transforms/cache.py",
        "key = (config.state(), args, tuple(kwargs.items()))",
        "key = (args, tuple(kwargs.items()))",
        "tests/core/test_config.py",
    ),
    Mutation(
        "a key of jit without the options",
        "didax/api/jit.py",
        "signature = (tree, config.of_programs(state), avals, static, tuple(axis_env.get().items()))",
        "signature = (tree, avals, static, tuple(axis_env.get().items()))",
        "tests/core/test_config.py tests/api/test_jit.py",
    ),
    Mutation(
        "a key of jit without the static arguments",
        "didax/api/jit.py",
        "signature = (tree, config.of_programs(state), avals, static, tuple(axis_env.get().items()))",
        "signature = (tree, config.of_programs(state), avals, tuple(axis_env.get().items()))",
        "tests/api/test_jit.py",
    ),
    Mutation(
        "rotation of threefry",
        "didax/primitives/threefry_cipher.py",
        "high |= x >> np.uint32(32 - distance)",
        "high |= x >> np.uint32(31 - distance)",
        "tests/primitives/test_threefry.py tests/random/test_keys.py",
    ),
    Mutation(
        "keys of each gamma sample",
        "didax/random/_gamma.py",
        "slice_axis(children, i, i + 1, 1)",
        "slice_axis(children, 0, 1, 1)",
        "tests/random/test_distributions.py -k by_rejection",
    ),
    Mutation(
        "out-of-range gather",
        "didax/primitives/gather.py",
        "if mode is not FILL_OR_DROP or not dims.start_index_map:",
        "if True:",
        f"{OPERATIONS} gather",
    ),
    Mutation(
        "part of an array on a device",
        "didax/core/sharding.py",
        "k = k * sizes[name] + at[name]",
        "k = k + sizes[name] * at[name]",
        "tests/test_devices.py -k placement",
    ),
    Mutation(
        "rows in host memory",
        f"{LOOPS}/scan.py",
        "(None if in_steps else kind for kind in xs)",
        "(None for kind in xs)",
        "tests/test_memories.py",
    ),
    Mutation(
        "values that the program puts in host memory",
        "didax/passes/memories.py",
        "return [y if kind is None else _Elsewhere(y, kind) for y, kind in zip(outs, given, strict=True)]",
        "return outs",
        "tests/test_memories.py",
    ),
    Mutation(
        "extremum over devices",
        "didax/primitives/collectives.py",
        'op = "maximum" if self.name == "pmax" else "minimum"',
        'op = "maximum"',
        "tests/test_devices.py -k shard_map",
    ),
    Mutation(
        "cotangents that devices share",
        "didax/primitives/shard_map.py",
        "new = _sharing_cotangents(new, len(known), ct_specs, x_specs, **how)",
        "pass",
        "tests/test_devices.py -k shard_map",
    ),
    Mutation(
        "terms of a product of series",
        JET,
        "for j in range(start, k + 1):",
        "for j in range(start, k):",
        "tests/test_jet.py",
    ),
    Mutation(
        "series of a derivative",
        JET,
        "return [scaled(series[k + 1], k + 1)]",
        "return [scaled(series[k + 1], k)]",
        "tests/test_jet.py",
    ),
    Mutation(
        "tail of the gamma distribution",
        "didax/scipy/stats/_tables.py",
        "sf=lambda z, a: gammaincc(a, z), logsf=gamma_logsf),",
        "sf=lambda z, a: gammainc(a, z), logsf=gamma_logsf),",
        "tests/scipy/test_stats.py",
    ),
    Mutation(
        "squarings of the exponential of a matrix",
        "didax/scipy/linalg/_matrix_functions.py",
        "wanted = (i < squarings)",
        "wanted = (i <= squarings)",
        "tests/scipy/test_linalg.py",
    ),
    Mutation(
        "step of conjugate gradients",
        "didax/scipy/sparse/linalg.py",
        "alpha = _quotient_or_zero(gamma, _dot(p, Ap).real)",
        "alpha = _quotient_or_zero(gamma, _dot(p, p).real)",
        "tests/scipy/test_sparse_linalg.py",
    ),
    Mutation(
        "a jaxpr of the layer, evaluated",
        "didax/as_jax/jaxprs.py",
        "return x.val if isinstance(x, Literal) else env[x]",
        "return 0 * x.val if isinstance(x, Literal) else env[x]",
        "tests/as_jax/test_jaxprs.py",
    ),
    Mutation(
        "a damaged exported program",
        "didax/export/_file.py",
        "if len(data) != length or _digest(data[_START:]) != digest or",
        "if len(data) != length or",
        "tests/test_export.py",
    ),
    Mutation(
        "derivative of an exported program",
        "didax/export/_exported.py",
        "found = self.vjp().call(*again, *full)",
        "found = self.vjp().call(*again, *full)[::-1]",
        "tests/test_export.py",
    ),
]


def killed_by(mutation: Mutation, tree: Path) -> str:
    """The last line of the tests under the fault: names the first failure. Empty if all pass."""
    file = tree / mutation.file
    source = file.read_text()
    file.write_text(source.replace(mutation.text, mutation.fault, 1))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        *arguments_of(mutation.tests),
    ]
    env = os.environ | {"PYTHONPATH": str(tree), "DIDAX_ENABLE_COMPILATION_CACHE": "0"}
    try:
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    finally:
        file.write_text(source)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0][:150] if lines else f"pytest ended with {done.returncode}"


def arguments_of(tests: str) -> list[str]:
    words, _, expression = tests.partition(" -k ")
    return [*words.split(), *(["-k", expression] if expression else [])]


def main(words: list[str]) -> int:
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in ("didax", "tests", "docs"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        for mutation in MUTATIONS:
            if not all(word in mutation.name for word in words):
                continue
            found = killed_by(mutation, tree)
            print(f"{mutation.name:45} {found or 'SURVIVES'}", flush=True)
            survivors += [mutation.name] * (not found)
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
