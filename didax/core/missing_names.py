"""What a public module says of a name that it lacks: where such a name is.

    >>> import didax
    >>> didax.sin
    Traceback (most recent call last):
    didax.core.missing_names.MissingNameError: module 'didax' has no attribute 'sin'.
    Use didax.numpy.sin or didax.lax.sin.
    >>> didax.numpy.argmx
    Traceback (most recent call last):
    didax.core.missing_names.MissingNameError: module 'didax.numpy' has no attribute 'argmx'.
    Did you mean didax.numpy.argmax?

Read next: `modules.py`, whose `on_access` gives a module its `__getattr__`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from opcode import opmap
from types import ModuleType
from typing import Any

# The modules that users name; those that most programs use come first. They are imported only when the text of
# an error is asked for, so no floor of the house depends on them.
_PUBLIC = (
    "didax", "didax.numpy", "didax.lax", "didax.nn", "didax.random", "didax.tree", "didax.numpy.linalg",
    "didax.numpy.fft", "didax.scipy", "didax.scipy.special", "didax.scipy.linalg", "didax.scipy.stats",
    "didax.scipy.signal", "didax.scipy.optimize", "didax.scipy.integrate", "didax.scipy.interpolate",
    "didax.scipy.ndimage", "didax.scipy.fft", "didax.scipy.spatial.transform", "didax.scipy.sparse.linalg",
    "didax.scipy.cluster.vq", "didax.lax.linalg", "didax.nn.initializers", "didax.image", "didax.ops", "didax.debug",
    "didax.sharding", "didax.checkpoints", "didax.dtypes", "didax.errors", "didax.custom_derivatives",
    "didax.custom_batching", "didax.checkpoint_policies", "didax.flatten_util", "didax.tree_util", "didax.test_util",
    "didax.profiler", "didax.export", "didax.ffi", "didax.stages", "didax.typing", "didax.distributed",
    "didax.experimental", "didax.experimental.implicit", "didax.experimental.jet", "didax.experimental.ode",
    "didax.experimental.rnn", "didax.experimental.sparse", "didax.experimental.sparse_derivatives",
    "didax.experimental.mesh_utils", "didax.experimental.multihost_utils", "didax.example_libraries.optimizers",
    "didax.example_libraries.stax", "didax.extend.core", "didax.extend.rules",
)  # fmt: skip

# What takes the place of names of PyTorch, Keras, SciPy and numpy.random: none of these is a name of Didax that would
# do, and the names of Didax that are spelled alike would mislead. Names are compared in lower case and without
# underscores.
_MODEL = "A model is a function of a tree of arrays, its parameters"
_INSTEAD = {
    "adam": "An optimizer is a function of gradients and a state: write one with didax.tree.map, or use optax.",
    "batchnorm": "The running averages are arguments and results: loss(params, stats, x) with has_aux=True.",
    "cat": "Use didax.numpy.concatenate.",
    "crossentropy": "Write -(nn.one_hot(label, n) * nn.log_softmax(logits)).sum(-1).",
    "defaultrng": "Make a key, key = didax.random.key(seed), and pass it to each draw.",
    "dropout": "Write numpy.where(random.bernoulli(key, keep, x.shape), x / keep, 0.0).",
    "embedding": "Index the table: table[tokens].",
    "fromnumpy": "Use didax.numpy.asarray.",
    "functional": "Activations are in didax.nn, convolutions and pooling in didax.lax, norms and losses a line each.",
    "integers": "Use didax.random.randint(key, shape, minval, maxval).",
    "layernorm": "Use didax.nn.standardize, then multiply by the scale and add the bias.",
    "linear": f"{_MODEL}: write x @ w + b.",
    "load": "Use didax.checkpoints.restore for trees of arrays, or didax.numpy.load for files of NumPy.",
    "manualseed": "Make a key, key = didax.random.key(seed), and pass it to each draw.",
    "mm": "Write x @ y.",
    "model": f"{_MODEL}.",
    "module": f"{_MODEL}; didax.tree_util.register_dataclass makes a class such a tree.",
    "mseloss": "Write ((x - y) ** 2).mean().",
    "nograd": "Nothing is recorded outside of didax.grad; didax.lax.stop_gradient keeps a value out of a derivative.",
    "optim": "An optimizer is a function of gradients and a state: write one with didax.tree.map, or use optax.",
    "rand": "Use didax.random.uniform(key, shape).",
    "randn": "Use didax.random.normal(key, shape).",
    "randomsample": "Use didax.random.uniform(key, shape).",
    "randomstate": "Make a key, key = didax.random.key(seed), and pass it to each draw.",
    "randperm": "Use didax.random.permutation(key, n).",
    "save": "Use didax.checkpoints.save for trees of arrays, or didax.numpy.save for one array.",
    "seed": "Make a key, key = didax.random.key(seed), and pass it to each draw.",
    "sequential": f"{_MODEL}: call one function after the other.",
    "shuffle": "Use didax.random.permutation(key, x), which returns a new array.",
    "solveivp": "Use didax.experimental.ode.odeint, which takes f(y, t, *args).",
    "standardnormal": "Use didax.random.normal(key, shape).",
    "tensor": "Use didax.numpy.array.",
    "variable": "Use didax.new_ref for a mutable array; parameters are plain arrays, which functions take and return.",
}  # fmt: skip
_INSTEAD["crossentropyloss"], _INSTEAD["sgd"] = _INSTEAD["crossentropy"], _INSTEAD["adam"]


class AdvisingAttributeError(AttributeError):
    """An AttributeError whose text says what to do, to which Python adds no suggestion of its own."""

    def __init__(self, *args: object):
        # Python suggests for `name`, which it sets where it finds no `obj`.
        super().__init__(*args, obj=type(self))


class MissingNameError(AdvisingAttributeError):
    """A public module lacks a name; the text says where that name is, or which names are like it.

    `hasattr` and `getattr` with a default throw the error away, so the text is made only when it is asked for.

    >>> import didax
    >>> didax.sin
    Traceback (most recent call last):
    didax.core.missing_names.MissingNameError: module 'didax' has no attribute 'sin'.
    Use didax.numpy.sin or didax.lax.sin.
    """

    def __str__(self) -> str:
        module, name = self.args
        return f"module {module!r} has no attribute {name!r}" + _advice(module, name)


class MissingImportError(ImportError):
    """The same, where `from module import name` asks.

    >>> from didax.nn import Linear
    Traceback (most recent call last):
    didax.core.missing_names.MissingImportError: cannot import name 'Linear' from 'didax.nn'.
    A model is a function of a tree of arrays, its parameters: write x @ w + b.
    """

    def __str__(self) -> str:
        module, name = self.args
        return f"cannot import name {name!r} from {module!r}" + _advice(module, name)


def missing(module: str, name: str) -> AttributeError | ImportError:
    """The error for the `__getattr__` of a module to raise.

    Python would throw an AttributeError away where an import statement asks, and raise one without advice; so this
    looks at the instruction that asks. A submodule that is being imported is found by Python itself.
    """
    asks = sys._getframe(1).f_back  # pyright: ignore[reportPrivateUsage]  # None where a thread of C asks
    is_import = asks is not None and asks.f_code.co_code[asks.f_lasti] == opmap["IMPORT_FROM"]
    if is_import and f"{module}.{name}" not in sys.modules:
        return MissingImportError(module, name)
    return MissingNameError(module, name)


def _advice(module: str, name: str) -> str:
    if name.startswith("_"):
        return ""
    if instead := _INSTEAD.get(name.lower().replace("_", "")):
        return f".\n{instead}"
    if homes := [f"{place}.{name}" for place in _PUBLIC if name in _names(place)]:
        return f".\nUse {_choice(homes)}."
    for place in (module, *_PUBLIC):
        if alike := _alike(name, _names(place)):
            return f".\nDid you mean {_choice(f'{place}.{other}' for other in alike)}?"
    return ""


def _names(place: str) -> list[str]:
    module = importlib.import_module(place)
    if names := getattr(module, "__all__", None):
        return list(names)
    return [name for name, value in vars(module).items() if _is_public(place, name, value)]


def _is_public(place: str, name: str, value: Any) -> bool:
    home = f"{place}.{name}"
    is_other = isinstance(value, ModuleType) and (value.__name__ != home or home not in _PUBLIC)
    return not name.startswith("_") and not is_other


def _alike(name: str, others: list[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, others, n=2, cutoff=0.8)


def _choice(names: Iterable[str]) -> str:
    return " or ".join(list(names)[:3])
