"""Foreign functions: a C++ library that the test builds, and a function pointer of ctypes, which needs no compiler."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import ffi
from didax.extend.core import Primitive

SOURCE = Path(__file__).parent / "ffi_sources" / "scale.cc"
PAGE = Path(__file__).parent.parent / "docs" / "ffi.md"
COMPILER = shutil.which("g++") or shutil.which("clang++")
X = np.arange(6.0, dtype="float32").reshape(2, 3)
F32, COUNT = dx.ShapeDtypeStruct((3,), "float32"), dx.ShapeDtypeStruct((), "int32")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    path = tmp_path_factory.mktemp("ffi") / "libscale.so"
    source = path.with_suffix(".cc")
    (of_page,) = re.findall(r"^```cpp\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    source.write_text(SOURCE.read_text() + of_page)
    flags = ["-std=c++17", "-O0", "-fPIC", "-shared", f"-I{ffi.include_dir()}"]
    subprocess.run([COMPILER, *flags, str(source), "-o", str(path)], check=True)
    found = ctypes.CDLL(str(path))
    ffi.register_ffi_target("didax_test_scale", ffi.pycapsule(found.ShiftHandler))
    ffi.register_ffi_target("didax_test_raw", {"execute": ffi.pycapsule(found.RawHandler)})
    ffi.register_ffi_target("didax_test_sums", ffi.pycapsule(found.SumsHandler))
    return found


def scale(x: Any, vmap_method: str | None = None, **more: Any) -> Any:
    call = ffi.ffi_call(
        "didax_test_scale", (dx.ShapeDtypeStruct(x.shape, "float32"), COUNT), vmap_method=vmap_method, **more
    )
    return call(x, factor=np.float32(2), shift=np.array([1, 2], "int32"), mode="scale")


def raw(x: Any, **options: Any) -> Any:
    call = ffi.ffi_call("didax_test_raw", dx.ShapeDtypeStruct(x.shape, "float32"), **options)
    return call(x, start=1, more={"slope": 0.5, "unused": True})


@pytest.mark.ci
@pytest.mark.usefixtures("library")
def test_calls_eager_compiled_and_mapped() -> None:
    y, count = scale(X)
    np.testing.assert_array_equal(y, 2 * X + 3)
    assert int(count) == 6

    @dx.jit
    def every(x: Any) -> Any:
        mapped = [
            dx.vmap(lambda row, m=m: scale(row, m)[0])(x) for m in ("sequential", "sequential_unrolled")
        ]
        return scale(dnp.sin(x))[0] * 2, mapped

    compiled, mapped = every(X)
    np.testing.assert_allclose(compiled, 4 * np.sin(X) + 6, rtol=1e-6)
    for found in mapped:
        np.testing.assert_array_equal(found, 2 * X + 3)
    wide = dx.vmap(lambda row: raw(row, vmap_method="broadcast_all"), in_axes=1, out_axes=1)(X)
    np.testing.assert_array_equal(wide, 1 + 0.5 * X)
    np.testing.assert_array_equal(dx.vmap(lambda row: raw(row, vmap_method="expand_dims"))(X), 1 + 0.5 * X)


@pytest.mark.ci
def test_the_handler_of_the_page_computes_what_the_page_says(library: ctypes.CDLL) -> None:
    ffi.register_ffi_target("scale", ffi.pycapsule(library.ScaleHandler))
    scaled = ffi.ffi_call("scale", F32, vmap_method="broadcast_all")
    np.testing.assert_array_equal(dx.vmap(lambda row: scaled(row, factor=np.float32(2)))(X), 2 * X)


@pytest.mark.ci
@pytest.mark.usefixtures("library")
def test_layouts_aliases_and_rules_of_the_user() -> None:
    by_columns = raw(X, input_layouts=[(1, 0)], output_layouts=(0, 1))  # what lies by columns is read as rows
    np.testing.assert_array_equal(by_columns, (1 + 0.5 * X).T.reshape(2, 3))
    in_place = dx.jit(lambda x: raw(x * 2, input_output_aliases={0: 0}))
    np.testing.assert_array_equal(in_place(X), 1 + X)
    assert "output_operand_aliases" in in_place.lower(X).as_text()

    @dx.custom_vjp
    def f(x: Any) -> Any:
        return raw(x)

    f.defvjp(lambda x: (raw(x), None), lambda _, ct: (0.5 * ct,))
    np.testing.assert_array_equal(dx.jit(dx.grad(lambda x: f(x).sum()))(X), np.full((2, 3), 0.5))

    class Scaled(Primitive):
        multiple_results = True

        def type(self, x: Any, **params: Any) -> Any:
            return [x, COUNT.aval]

        config = {"mode": "scale", "shift": np.zeros(1, "int32")}
        lower = staticmethod(ffi.ffi_lowering("didax_test_scale", backend_config=config))

    scaled = Scaled("didax_test_scaled")
    out, _ = dx.jit(lambda x: scaled.bind(x, factor=np.float32(3)))(X)
    np.testing.assert_array_equal(out, 3 * X)

    class ScaledOnce(Primitive):
        def type(self, x: Any, **params: Any) -> Any:
            return x

        def lower(self, ctx: Any, x: Any, **params: Any) -> Any:
            write = ffi.build_ffi_lowering_function(
                "didax_test_scale", backend_config=Scaled.config, result_types=[x.aval, COUNT.aval]
            )
            out, _ = write(ctx, x, **params).results
            return ctx.op("negate", [out])

    once = dx.jit(lambda x: ScaledOnce("didax_test_scaled_once").bind(x, factor=np.float32(3)))
    np.testing.assert_array_equal(once(X), -3 * X)


@pytest.mark.cpu
@pytest.mark.usefixtures("library")
def test_attributes_are_arrays_of_any_shape_and_bytes() -> None:
    sums = ffi.ffi_call("didax_test_sums", dx.ShapeDtypeStruct((3,), "float64"))
    for size in (0, 1, 3, 5000):
        numbers = np.arange(2.0 * size).reshape(2, size) / 3
        found = sums(bytes=np.full(size, 200, "uint8"), numbers=numbers, text=b'\xff\x00"a')
        np.testing.assert_allclose(found, [200 * size, numbers.sum(), 255 + 34 + 97])
    found = sums(bytes=np.array(7, "uint8"), numbers=np.array([0.1, np.inf]), text='é\t"\\\n')
    np.testing.assert_array_equal(found, [7, np.inf, sum('é\t"\\\n'.encode())])


def test_types_of_states_are_registered() -> None:
    """XLA writes the number that it gives to a type into the memory behind the capsule."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    ids = (ctypes.c_int64 * 2)()
    first, second = (new(ctypes.addressof(ids) + 8 * i, None, None) for i in range(2))
    ffi.register_ffi_type("didax_test_state", {"type_id": first})
    ffi.register_ffi_type_id("didax_test_other_state", second)
    assert 0 < ids[0] != ids[1] > 0
    globals()["_kept_ids"] = ids  # XLA keeps the addresses


@pytest.mark.ci
@pytest.mark.usefixtures("library")
def test_an_error_of_the_function_is_an_error_of_the_call() -> None:
    call = ffi.ffi_call("didax_test_scale", (F32, COUNT))
    with pytest.raises(Exception, match="no such mode"):
        call(X[0], factor=np.float32(1), shift=np.zeros(0, "int32"), mode="other")


@pytest.mark.cpu
@pytest.mark.usefixtures("library")
def test_an_error_of_a_program_that_has_ended_is_an_error_where_its_result_is_read() -> None:
    @dx.jit
    def fail(x: Any) -> Any:
        call = ffi.ffi_call("didax_test_scale", (F32, COUNT))
        x = (x @ x).sum(0)[:3]  # work enough for another thread
        return call(x, factor=np.float32(1), shift=np.zeros(0, "int32"), mode="other")[0]

    y = fail(np.ones((512, 512), "float32"))
    while not y.is_ready():
        time.sleep(0.001)
    for read in (dx.block_until_ready, np.asarray, repr):
        with pytest.raises(Exception, match="no such mode"):
            read(y)


@pytest.mark.cpu
def test_handlers_for_gpus_are_nothing_to_a_process_without_one() -> None:
    """Libraries register those of all platforms when they are imported."""
    dx.ffi.register_ffi_target("for_gpus_only", dx.ffi.pycapsule(1), platform="CUDA")
    dx.ffi.register_ffi_type("for_gpus_only", {}, platform="CUDA")


@pytest.mark.cpu
def test_a_function_pointer_of_ctypes() -> None:
    """The interface before the typed one: no attributes, no errors, and no header."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))

    @kind
    def double(out: int, ins: Any) -> None:
        source = np.ctypeslib.as_array(ctypes.cast(ins[0], ctypes.POINTER(ctypes.c_float)), (3,))
        np.ctypeslib.as_array(ctypes.cast(out, ctypes.POINTER(ctypes.c_float)), (3,))[:] = 2 * source

    ffi.register_ffi_target("didax_test_double", ffi.pycapsule(double), api_version=0)
    call = ffi.ffi_call("didax_test_double", F32, custom_call_api_version=1, legacy_backend_config="")
    np.testing.assert_array_equal(call(X[1]), 2 * X[1])
    globals()["_kept"] = double  # XLA keeps the address


STRUCT = dx.ShapeDtypeStruct((2,), "float32")
ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "platform": (lambda: ffi.register_ffi_target("x", None, platform="abacus"), ValueError, "'abacus'"),
    "results": (lambda: ffi.ffi_call("x", 3), TypeError, "has a shape and a dtype"),
    "vmap_method": (lambda: ffi.ffi_call("x", STRUCT, vmap_method="no"), ValueError, "'no'"),
    "attribute": (lambda: ffi.ffi_call("x", STRUCT)(X, a=[1]), TypeError, r"a: \[1\] of type list"),
    "number": (lambda: ffi.ffi_call("x", STRUCT)(X, a=2**63), OverflowError, "a: 9223372036854775808"),
    "key": (lambda: ffi.ffi_call("x", STRUCT)(X, a={1: 2}), TypeError, "a: a key is 1"),
    "layout": (
        lambda: ffi.ffi_call("x", STRUCT, input_layouts=[(0, 0)])(X),
        ValueError,
        r"input_layouts: \[\(0, 0\)\]",
    ),
    "alias": (lambda: ffi.ffi_call("x", STRUCT, input_output_aliases={0: 0})(X), ValueError, "pair: 0 -> 0"),
    "legacy": (
        lambda: ffi.ffi_call("x", STRUCT, custom_call_api_version=2)(X, a=1),
        ValueError,
        "attributes: a",
    ),
    "derivative": (
        lambda: dx.grad(lambda x: ffi.ffi_call("x", STRUCT)(x).sum())(X[0]),
        Exception,
        "custom_vjp",
    ),
    "map": (
        lambda: dx.vmap(ffi.ffi_call("x", STRUCT))(X),
        NotImplementedError,
        "target: x, vmap_method: None",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, part = ERRORS[name]
    with pytest.raises(error, match=part):
        call()
