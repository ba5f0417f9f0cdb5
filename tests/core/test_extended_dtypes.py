"""Extended dtypes: elements that are no numbers, in the type system and in the text of jaxprs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from didax import dtypes as public
from didax.core import dtypes
from didax.core.avals import ShapedArray
from didax.core.errors import TypePromotionError
from didax.core.jaxpr_parse import parse_jaxpr
from didax.core.jaxpr_print import jaxpr_text

PAIR = dtypes.register_extended(dtypes.ExtendedDtype("pair<i>", dtypes.extended, np.dtype("int32"), (2, 3)))


def test_an_array_stands_on_numbers():
    """Element axes come last; arrays of numbers stand on themselves."""
    aval = ShapedArray((4,), PAIR)
    assert aval.physical is ShapedArray((4, 2, 3), np.dtype("int32")) and str(aval) == "pair<i>[4]"
    assert aval.physical.physical is aval.physical
    assert aval.tangent() is ShapedArray((4,), dtypes.float0)
    assert pickle.loads(pickle.dumps(aval)) is aval and PAIR.itemsize == 24


def test_it_has_a_kind_and_a_name_but_no_numbers():
    assert dtypes.kind_of(PAIR) == "x" and dtypes.from_short_name("pair<i>") is PAIR
    assert not dtypes.is_inexact(PAIR) and not dtypes.is_integer(PAIR)
    assert dtypes.dtype(PAIR) is PAIR and public.canonicalize_dtype(PAIR) is PAIR
    assert public.issubdtype(PAIR, public.extended) and not public.issubdtype(PAIR, public.prng_key)
    assert PAIR != np.dtype("int32") and np.dtype("int32") != PAIR and PAIR != dtypes.float0


@pytest.mark.parametrize("other", [np.dtype("int32"), np.dtype("bool"), dtypes.float0])
def test_it_promotes_with_itself_alone(other):
    assert dtypes.join(PAIR, False, PAIR, False) == (PAIR, False)
    for pair in ((PAIR, False, other, False), (other, False, PAIR, False)):
        with pytest.raises(
            TypePromotionError, match=r"(?s)no dtype in common with others.*inputs: .*pair<i>"
        ):
            dtypes.join(*pair)


def test_its_arrays_have_texts():
    """In binders, in parameters, weak or of any rank."""
    text = "{ lambda a:pair<i>[] ; b:pair<i>[2,3]. let\n    c:pair<i>[6] = reshape[new_sizes=(6,)] b\n  in (a, c) }"
    assert jaxpr_text(parse_jaxpr(text), 1) == text
    with pytest.raises(ValueError, match="this is no type"):
        parse_jaxpr(text.replace("pair<i>[6]", "pair<j>[6]"))
