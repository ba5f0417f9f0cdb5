"""Programs that outlive their Python: exported, written to a file, read and called in another process.

    data = export(jit(f))(x).serialize(vjp_order=1)        in one process, then, in another,
    y = deserialize(data).call(x)

What is saved is the StableHLO module for the types of the arguments, with those of its vjps up to an order, as
portable artifacts that later versions of XLA read, beside a description in JSON; no pickle. Names follow `jax.export`.
Shapes are concrete. Read next: `docs/export.md`; `didax/primitives/exported.py`.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from didax.api.autodiff import vjp
from didax.api.custom import custom_vjp
from didax.api.flat import as_array, flatten_arguments
from didax.api.jit import jit
from didax.core import dtypes, pytree
from didax.core.avals import ShapedArray, aval_of
from didax.core.errors import api_boundary, message
from didax.core.jaxpr import eval_jaxpr
from didax.primitives.custom.constant import Held, constant_p
from didax.primitives.exported import Artifact, exported_p
from didax.version import __version__
from didax.xla.artifacts import module_text, serialize_module
from didax.xla.lapack import platform
from didax.xla.lowering import lower_module

__all__ = ["Exported", "deserialize", "export"]

_MAGIC = b"DIDAX-EXPORT"
_FORMAT, _OLDEST = 1, 1
_HEADER = struct.Struct(f"<{len(_MAGIC)}sHQ32s")  # the format, the length of the rest and its SHA-256


class Exported:
    """A program for arguments of given types, which needs none of the Python that it was made from."""

    def __init__(
        self, artifact: Artifact, in_tree: Any, out_tree: Any, platforms: Sequence[str], make_vjp: Any = None
    ):
        self.fun_name = artifact.name
        self.in_tree, self.out_tree = in_tree, out_tree
        self.in_avals, self.out_avals = artifact.in_avals, artifact.out_avals
        self.platforms = tuple(platforms)
        self.nr_devices = 1
        self.mlir_module_serialized = artifact.data
        self._artifact = artifact
        self._make_vjp: Callable[[], Exported] | None = make_vjp

    def mlir_module(self) -> str:
        """The StableHLO text."""
        return module_text(self.mlir_module_serialized)

    def has_vjp(self) -> bool:
        """Whether it can be differentiated in reverse mode."""
        return self._make_vjp is not None

    def vjp(self) -> Exported:
        """The program from all arrays of the arguments, and a cotangent for each array of the result, to cotangents.

        There is one for each floating-point array of the arguments. Raises ValueError where no vjp was saved.
        """
        if self._make_vjp is None:
            rule = "This exported program was saved without its vjp."
            raise ValueError(
                message(
                    rule,
                    f"program: {self.fun_name}",
                    fix="Save it with a larger vjp_order: serialize(vjp_order=1).",
                )
            )
        return self._make_vjp()

    @api_boundary
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The results for arguments of the types that it was exported for."""
        leaves, tree = flatten_arguments(args, kwargs)
        arrays = [as_array(x) for x in leaves]
        avals = [aval_of(x) for x in arrays]
        if tree != self.in_tree or any(
            a.shape != b.shape or a.dtype != b.dtype for a, b in zip(avals, self.in_avals, strict=True)
        ):
            raise TypeError(
                message(
                    f"The exported program {self.fun_name} takes arguments of the types that it was exported for.",
                    f"exported for: {', '.join(map(str, self.in_avals))} in {self.in_tree}",
                    f"got: {', '.join(map(str, avals))} in {tree}",
                    fix="Cast or reshape the arguments, or export the function for these types.",
                )
            )
        if platform() not in self.platforms:
            rule = f"The exported program {self.fun_name} is for other platforms."
            facts = f"exported for: {', '.join(self.platforms)}, this process: {platform()}"
            raise ValueError(message(rule, facts, fix="Export it in a process of this platform."))
        return pytree.unflatten(self.out_tree, [as_array(y) for y in self._flat(arrays)])

    def _flat(self, arrays: Sequence[Any]) -> list[Any]:
        def run(*xs: Any) -> list[Any]:
            return exported_p.bind(*xs, artifact=self._artifact)

        if self._make_vjp is None:
            return run(*arrays)
        function = custom_vjp(run)

        def backward(xs: Any, cts: Any) -> tuple[Any, ...]:
            floats = [
                ct for ct, aval in zip(cts, self.out_avals, strict=True) if dtypes.is_inexact(aval.dtype)
            ]
            given = iter(self.vjp().call(*xs, *floats))
            return tuple([next(given) if dtypes.is_inexact(x.dtype) else None for x in self.in_avals])

        function.defvjp(lambda *xs: (function(*xs), xs), backward)
        return function(*arrays)

    @api_boundary
    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, with its vjps up to that order."""
        blobs: list[bytes] = []
        description = json.dumps({"didax": __version__, "program": self._describe(vjp_order, blobs)}).encode()
        payload = struct.pack("<Q", len(description)) + description + b"".join(blobs)
        return bytearray(
            _HEADER.pack(_MAGIC, _FORMAT, len(payload), hashlib.sha256(payload).digest()) + payload
        )

    def _describe(self, vjp_order: int, blobs: list[bytes]) -> dict[str, Any]:
        start = sum(map(len, blobs))
        blobs.append(bytes(self.mlir_module_serialized))
        return {
            "name": self.fun_name,
            "platforms": self.platforms,
            "in_tree": _encoded(self.in_tree),
            "out_tree": _encoded(self.out_tree),
            "in_avals": list(map(_aval_parts, self.in_avals)),
            "out_avals": list(map(_aval_parts, self.out_avals)),
            "module": [start, len(self.mlir_module_serialized)],
            "vjp": self.vjp()._describe(vjp_order - 1, blobs) if vjp_order > 0 else None,
        }


@api_boundary
def export(fun: Callable[..., Any]) -> Callable[..., Exported]:
    """A function from arguments, or `ShapeDtypeStruct`s in their place, to the exported program of a jitted function.

    Arrays that the function captured are written into the program.

    Raises TypeError for a function that is not jitted, ValueError for programs that call Python or take random keys.

    >>> import didax as dx, didax.numpy as dnp
    >>> from didax import export
    >>> f = export.export(dx.jit(lambda x: dnp.sin(x) * 2))(dx.ShapeDtypeStruct((), "float32"))
    >>> f = export.deserialize(f.serialize(vjp_order=1))
    >>> float(f.call(0.0)), float(dx.grad(f.call)(0.0))
    (0.0, 2.0)
    """
    if not hasattr(fun, "trace"):
        rule = "export takes a jitted function."
        raise TypeError(message(rule, f"got: {fun!r:.100}", fix="Write export(jit(f))."))

    def exported(*args: Any, **kwargs: Any) -> Exported:
        return _exported(fun, args, kwargs)

    return api_boundary(exported)


def _exported(fun: Any, args: Any, kwargs: Any) -> Exported:
    traced = fun.trace(*args, **kwargs)
    jaxpr, consts = traced.jaxpr
    if len(jaxpr.outvars) != traced.out_tree.num_leaves or jaxpr.effects:
        rule = (
            "A program that calls Python, or writes to Refs, cannot be exported: its Python would be missing."
        )
        raise ValueError(
            message(rule, f"program: {traced.fun_name}", fix="Export the part without callbacks and Refs.")
        )
    in_avals = jaxpr.in_avals[len(consts) :]
    for aval in (*in_avals, *jaxpr.out_avals):
        if dtypes.as_extended(aval.dtype) is not None:
            rule = "Arguments and results of an exported program are numbers."
            fix = "Pass the words of keys (random.key_data), and wrap them inside (random.wrap_key_data)."
            raise ValueError(message(rule, f"array: {aval}", fix=fix))

    def closed(*xs: Any) -> list[Any]:
        captured = [constant_p.bind(held=Held(c)) for c in consts]
        return eval_jaxpr(jaxpr, [*captured, *xs])

    staged = jit(closed).trace(*in_avals).jaxpr
    callbacks: list[Any] = []
    text = lower_module(staged.jaxpr, name="exported", callbacks=callbacks)
    if staged.consts or callbacks:
        rule = "A program that calls Python, or captures values of an enclosing transformation, cannot be exported."
        raise ValueError(
            message(rule, f"program: {traced.fun_name}", fix="Pass what it captures as arguments.")
        )
    artifact = Artifact(traced.fun_name, serialize_module(text), in_avals, jaxpr.out_avals)

    def pull(*xs: Any) -> list[Any]:
        primals, cts = xs[: len(in_avals)], iter(xs[len(in_avals) :])
        moving = [i for i, aval in enumerate(in_avals) if dtypes.is_inexact(aval.dtype)]
        kept = [i for i, aval in enumerate(jaxpr.out_avals) if dtypes.is_inexact(aval.dtype)]

        def of_floats(*ys: Any) -> list[Any]:
            every = list(primals)
            for i, y in zip(moving, ys, strict=True):
                every[i] = y
            outs = closed(*every)
            return [outs[i] for i in kept]

        return list(vjp(of_floats, *[primals[i] for i in moving])[1](list(cts)))

    def make_vjp() -> Exported:
        cts = [aval for aval in jaxpr.out_avals if dtypes.is_inexact(aval.dtype)]
        return _exported(jit(pull), (*in_avals, *cts), {})

    return Exported(artifact, traced.in_tree, traced.out_tree, [platform()], make_vjp)


@api_boundary
def deserialize(blob: bytes | bytearray) -> Exported:
    """The exported program of bytes that `Exported.serialize` gave.

    Raises ValueError for bytes that are none of these, that are damaged, or whose format is newer or older than this
    version reads.
    """
    data = bytes(blob)
    if not data.startswith(_MAGIC) or len(data) < _HEADER.size:
        fix = "Pass the bytes that Exported.serialize returned."
        raise ValueError(
            message("These bytes are no exported program.", f"first bytes: {data[:12]!r}", fix=fix)
        )
    _, found, length, digest = _HEADER.unpack_from(data)
    if not _OLDEST <= found <= _FORMAT:
        age = "newer" if found > _FORMAT else "older"
        rule = f"The exported program has a {age} format than this version of Didax reads."
        fix = "Update Didax." if found > _FORMAT else "Export it again."
        raise ValueError(message(rule, f"format: {found}, read: {_OLDEST} to {_FORMAT}", fix=fix))
    payload = data[_HEADER.size :]
    if len(payload) != length or hashlib.sha256(payload).digest() != digest:
        rule = "The exported program is damaged."
        raise ValueError(
            message(rule, f"bytes: {len(payload)}, wanted: {length}", fix="Copy or export it again.")
        )
    (size,) = struct.unpack_from("<Q", payload)
    description = json.loads(payload[8 : 8 + size])
    return _read(description["program"], payload[8 + size :])


def _read(parts: dict[str, Any], blobs: bytes) -> Exported:
    start, length = parts["module"]
    in_avals, out_avals = [[_aval_of_parts(x) for x in parts[name]] for name in ("in_avals", "out_avals")]
    artifact = Artifact(parts["name"], blobs[start : start + length], in_avals, out_avals)
    in_tree, out_tree = [pytree.structure(_decoded(parts[name])) for name in ("in_tree", "out_tree")]
    inner = None if parts["vjp"] is None else _read(parts["vjp"], blobs)
    return Exported(artifact, in_tree, out_tree, parts["platforms"], None if inner is None else lambda: inner)


def _aval_parts(aval: ShapedArray) -> list[Any]:
    return [dtypes.dtype_name(aval.dtype), list(aval.shape), aval.weak_type]


def _aval_of_parts(parts: Any) -> ShapedArray:
    name, shape, weak_type = parts
    return ShapedArray(tuple(shape), dtypes.dtype(name), weak_type)


def _encoded(tree: Any) -> Any:
    """A structure in JSON: arrays are 0, and each container says what it is."""

    def encode(x: Any) -> Any:
        if x is None or isinstance(x, int):
            return None if x is None else 0
        if type(x) in (tuple, list):
            return {type(x).__name__: list(map(encode, x))}
        if type(x) is dict and all(type(key) in (str, int) for key in x):
            return {"dict": [[key, encode(value)] for key, value in x.items()]}
        rule = "Arguments and results of an exported program are tuples, lists and dicts of arrays."
        fix = "Flatten other containers before (tree.flatten), and build them after."
        raise ValueError(message(rule, f"container: {type(x).__qualname__}", fix=fix))

    return encode(pytree.unflatten(tree, [0] * tree.num_leaves))


def _decoded(x: Any) -> Any:
    if not isinstance(x, dict):
        return x
    ((kind, items),) = x.items()
    if kind == "dict":
        return {key: _decoded(value) for key, value in items}
    return (tuple if kind == "tuple" else list)([_decoded(item) for item in items])
