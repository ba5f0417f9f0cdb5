"""The operators and methods of BCOO and BCSR arrays: those of dense arrays, by `sparsify`.

`transform.py` needs the classes, and the classes have these operators: so they are attached here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import didax.numpy as dnp
from didax.experimental.sparse.bcoo import BCOO
from didax.experimental.sparse.bcsr import BCSR
from didax.experimental.sparse.transform import sparsify, todense

_BINARY: dict[str, Any] = {
    "matmul": dnp.matmul, "mul": dnp.multiply, "truediv": dnp.divide, "add": dnp.add, "sub": dnp.subtract,
}  # fmt: skip
_COMPARISONS: dict[str, Any] = {
    "gt": dnp.greater, "ge": dnp.greater_equal, "lt": dnp.less, "le": dnp.less_equal, "eq": dnp.equal,
    "ne": dnp.not_equal,
}  # fmt: skip
_UNARY: dict[str, Any] = {"abs": dnp.abs, "neg": dnp.negative, "pos": dnp.positive}


def _operator(function: Callable[..., Any], reflected: bool = False) -> Callable[..., Any]:
    run = sparsify(lambda x, y: function(y, x) if reflected else function(x, y))
    return lambda self, other: run(self, other)


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return sparsify(lambda x: getattr(x, name)(*args, **options))(self)

    method.__doc__ = f"As the method `{name}` of dense arrays."
    return method


def _sum(self: Any, *args: Any, **options: Any) -> Any:
    """As the method `sum` of dense arrays: a scalar is dense."""
    found = _method("sum")(self, *args, **options)
    return found if found.ndim else todense(found)


def _power(self: Any, exponent: Any) -> Any:
    return sparsify(lambda x: dnp.power(x, exponent))(self)


def _getitem(self: Any, index: Any) -> Any:
    found = sparsify(lambda x: x[index])(self)
    return found if isinstance(found, type(self)) or found.size else BCOO.fromdense(found)


def _iterate(self: Any) -> Iterator[Any]:
    return iter(self[i] for i in range(self.shape[0]))


def _attach(cls: type, **attributes: Any) -> None:
    for name, value in attributes.items():
        setattr(cls, name, value)


_attach(BCOO, **{f"__{name}__": _operator(f) for name, f in {**_BINARY, **_COMPARISONS}.items()})
_attach(BCOO, **{f"__r{name}__": _operator(f, reflected=True) for name, f in _BINARY.items()})
_attach(BCOO, **{f"__{name}__": sparsify(f) for name, f in _UNARY.items()})
_attach(BCOO, **{name: _method(name) for name in ("astype", "reshape")})
_attach(BCOO, sum=_sum, __pow__=_power, __rpow__=_operator(dnp.power, reflected=True), __iter__=_iterate)
_attach(BCSR, __matmul__=_operator(dnp.matmul), __rmatmul__=_operator(dnp.matmul, reflected=True))
_attach(BCOO, __getitem__=_getitem)
_attach(BCSR, __getitem__=_getitem)
