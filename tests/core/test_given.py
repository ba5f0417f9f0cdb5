"""What a lower floor needs of a higher one: declared in one place, given in the other."""

import pytest

import didax as dx
from didax.core.array_ops import array_ops
from didax.core.given import GivenLater, give, given_by
from didax.core.jaxpr import Jaxpr
from didax.core.primitive import EagerTrace
from didax.core.value import Array
from didax.primitives.call import jit_p


class Waiting:
    area = given_by("a.module")
    mine = given_by(__name__)


def test_what_is_declared_is_given_when_didax_is_loaded() -> None:
    for owner, name in [
        (EagerTrace, "process"),
        (jit_p, "evaluate"),
        (Jaxpr, "__repr__"),
        (array_ops, "add"),
    ]:
        assert not isinstance(getattr(owner, name), GivenLater)
    assert Array.GIVEN_BY == "didax.numpy.array_methods" and float(dx.numpy.ones(()) + 1) == 2.0


def test_use_before_it_is_given_names_the_module() -> None:
    with pytest.raises(RuntimeError, match=r"has not been loaded.\n  module: a.module\nImport didax first."):
        Waiting().area()


def test_only_the_module_that_is_declared_gives() -> None:
    with pytest.raises(
        TypeError, match=r"given by a.module\n  module: .*test_given\nDeclare it: area = given_by"
    ):
        give(Waiting, "area")(test_use_before_it_is_given_names_the_module)
    with pytest.raises(TypeError, match="given by None"):
        give(Waiting, "other")(test_use_before_it_is_given_names_the_module)
    give(Waiting, "mine")(lambda self: 3)
    assert Waiting().mine() == 3
