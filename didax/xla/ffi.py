"""Compiled functions behind XLA's typed interface: making them known, and writing calls of them.

A handler is a C function with the interface of `xla/ffi/api/ffi.h`, which jaxlib ships (`include_dir`). XLA knows it by
a name and a platform; a program calls it by `stablehlo.custom_call` with attributes.
Read next: `didax/ffi.py`, what users call; `callbacks.py`, where the interface is used for Python functions.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import ArgumentError, api_boundary, message
from didax.core.process import to_the_end
from didax.xla.callbacks import capsule_of
from didax.xla.text import (
    FunctionContext,
    Value,
    dense,
    element_type,
    function_type,
    layout_text,
    names,
    number_text,
    quoted,
)

_PLATFORMS = {"cpu": "Host", "host": "Host", "cuda": "CUDA", "gpu": "CUDA", "rocm": "ROCM"}


def xla_platform(platform: str) -> str:
    """The name that XLA has for a platform; an error for others."""
    found = _PLATFORMS.get(str(platform).lower())
    if found is None:
        rule = "Handlers are registered for a platform that programs run on."
        fix = f"Use one of {', '.join(map(repr, _PLATFORMS))}."
        raise ArgumentError(message(rule, f"platform: {platform!r}", fix=fix))
    return found


def register_target(name: str, handler: Any, platform: str, api_version: int, **options: Any) -> None:
    """Make a handler, a capsule or a dict of those for its stages, known to XLA."""
    on = xla_platform(platform)
    from didax.xla.client import backend, xe  # pyright: ignore[reportAttributeAccessIssue]

    if on == "Host":
        to_the_end(
            lambda: xe.register_custom_call_target(name, handler, on, api_version=api_version, **options)
        )
        return
    if (found := _gpu_extension(backend())) is not None:
        plugin, c_api = found
        to_the_end(lambda: plugin.register_custom_call_target(c_api, name, handler, on, api_version, 0))


def register_type(name: str, registration: Any, platform: str) -> None:
    """Make a type of a handler's state known to XLA."""
    on = xla_platform(platform)
    from didax.xla.client import backend, xe  # pyright: ignore[reportAttributeAccessIssue]

    if on == "Host":
        to_the_end(lambda: xe.register_custom_type(name, registration))
        return
    if (found := _gpu_extension(backend())) is not None:
        plugin, c_api = found
        to_the_end(lambda: plugin.register_custom_type(c_api, name, registration))


def _gpu_extension(started: Any) -> tuple[Any, Any] | None:
    """The module of the GPU plugin in which handlers for GPUs are registered, and the plugin's interface.

    None where this process uses no GPU: nothing calls handlers for one, and libraries register those of all platforms.
    """
    if started.c_api is None:
        return None
    for package in ("jax_cuda13_plugin", "jax_cuda12_plugin"):
        try:
            return importlib.import_module(f"{package}.cuda_plugin_extension"), started.c_api
        except ImportError:
            continue
    rule = "Handlers for a GPU are registered in XLA's plugin for NVIDIA GPUs, which is not installed."
    fix = "pip install 'didax[gpu]'"
    raise RuntimeError(message(rule, f"platform of this process: {started.platform}", fix=fix))


@api_boundary
def pycapsule(funcptr: Any) -> Any:
    """A capsule around a C function: a function of ctypes or numba, or its address as an int.

    >>> import ctypes, didax as dx
    >>> type(dx.ffi.pycapsule(ctypes.pythonapi.Py_IsInitialized)).__name__
    'PyCapsule'
    """
    address = funcptr if isinstance(funcptr, int) else ctypes.cast(funcptr, ctypes.c_void_p)
    return capsule_of(address, None)


@api_boundary
def include_dir() -> str:
    """The directory of the headers that jaxlib ships: xla/ffi/api/ffi.h.

    >>> import os.path, didax as dx
    >>> os.path.isfile(os.path.join(dx.ffi.include_dir(), "xla/ffi/api/ffi.h"))
    True
    """
    jaxlib = importlib.import_module("jaxlib")
    return os.path.join(os.path.dirname(os.path.abspath(cast(str, jaxlib.__file__))), "include")


def attribute_text(name: str, value: Any) -> str:
    """A static argument of a handler as an MLIR attribute.

    Python's numbers have 64 bits, NumPy's have their dtype, and NumPy arrays are spans of numbers.
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            fix = "Pass np.uint64(number), a float or an array argument."
            rule = "Python's integers are attributes of 64 bits with a sign."
            raise OverflowError(message(rule, f"{name}: {value!r:.100}", fix=fix))
        return f"{value} : i64"
    if isinstance(value, float):
        value = np.float64(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return '"' + "".join([f"\\{byte:02X}" for byte in value]) + '"'
    if isinstance(value, np.generic) and not dtypes.is_complex(value.dtype):
        dtype = dtypes.dtype(value.dtype)
        return f"{number_text(np.asarray(value), dtype)} : {element_type(dtype)}"
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        dtype = dtypes.dtype(array.dtype)
        if not dtypes.is_complex(dtype):
            return f"dense<{dense(array.ravel(), dtype)}> : tensor<{array.size}x{element_type(dtype)}>"
    if isinstance(value, Mapping):
        return attributes_text(cast("Mapping[str, Any]", value), name)
    rule = "An attribute of a foreign function is a number, a string, a NumPy array, or a dict of these."
    got = f"{name}: {value!r:.100} of type {type(value).__name__}"
    raise TypeError(message(rule, got, fix="Convert it, or pass it as an array argument."))


def attributes_text(attributes: Mapping[str, Any], name: str = "attributes") -> str:
    """A dictionary of attributes; an error says its `name`."""
    if wrong := [key for key in attributes if not isinstance(key, str)]:
        rule, got = "The keys of a dict of attributes are strings.", f"{name}: a key is {wrong[0]!r:.100}"
        raise TypeError(message(rule, got, fix="Write str(key)."))
    texts = [
        f"{key if key.isascii() and key.isidentifier() else quoted(key)} = {attribute_text(key, x)}"
        for key, x in sorted(attributes.items())
    ]
    return f"{{{', '.join(texts)}}}"


def call_target(
    ctx: FunctionContext,
    target: str,
    operands: Sequence[Value],
    outs: Sequence[ShapedArray],
    *,
    config: str,
    side_effect: bool,
    operand_layouts: Sequence[Sequence[int]],
    result_layouts: Sequence[Sequence[int]],
    aliases: Sequence[tuple[int, int]] = (),
    api_version: int = 4,
) -> list[Value]:
    """Write a call; layouts name axes from the slowest to the fastest, `config` is a text of attributes or a string."""
    many = len(outs) > 1
    aliased = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{out if many else ''}], operand_index = {x}, "
        "operand_tuple_indices = []>"
        for x, out in aliases
    )
    return ctx.emit_many(
        f"stablehlo.custom_call @{target}({names(operands)}) {{api_version = {api_version} : i32, "
        f"backend_config = {config}, has_side_effect = {'true' if side_effect else 'false'}, "
        f"operand_layouts = [{', '.join([layout_text(order[::-1]) for order in operand_layouts])}], "
        f"result_layouts = [{', '.join([layout_text(order[::-1]) for order in result_layouts])}]"
        f"{f', output_operand_aliases = [{aliased}]' if aliased else ''}}} : {function_type(operands, outs)}",
        outs,
    )
