"""Keys used twice are noticed, wherever the two uses are; and nothing else is."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import didax as dx
import didax.numpy as dnp
from didax import lax, random
from didax.core.errors import KeyReuseError, KeyReuseWarning
from didax.passes.key_reuse import forget_reports
from tests.checks import first


@pytest.fixture(autouse=True)
def fresh_reports() -> Iterator[None]:
    """Lines of which another parameter of the test was warned are reported again."""
    forget_reports()
    yield
    forget_reports()


def here(offset: int = 0) -> str:
    """This line, as reports give it."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"{__file__}:{frame.f_back.f_lineno + offset} "


def reports(f: Callable[..., Any], *args: Any) -> list[str]:
    """The texts of the warnings, each pair of lines once."""
    forget_reports()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        f(*args)
    assert all(issubclass(w.category, KeyReuseWarning) for w in found)
    return [str(w.message) for w in found]


def key(impl: str = "threefry2x32") -> Any:
    return random.key(0, impl=impl)


# --- what is reported -------------------------------------------------------------------------------------


def test_a_report_has_the_rule_both_lines_the_type_and_the_way_out():
    k = key()
    first = here(1)
    random.normal(k)
    with pytest.warns(KeyReuseWarning) as found:
        second = here(1)
        random.uniform(k)
    (report,) = found
    rule, one, two, kind, fix = str(report.message).splitlines()
    assert rule == "A random key is to be used once: what is drawn from it a second time is not independent."
    assert one.startswith(f"  first use: {first}") and two.startswith(f"  second use: {second}")
    assert kind == "  key: key<fry>[]"
    assert "random.split" in fix and "random.fold_in" in fix and "random.clone" in fix
    assert report.filename == __file__ and f":{report.lineno} " in second


def test_a_pair_of_lines_is_reported_once():
    def draw_often():
        k = key()
        for _ in range(4):
            random.normal(k)

    assert len(reports(lambda: [draw_often(), draw_often()])) == 1


USES = {
    "normal": random.normal,
    "many": lambda k: random.normal(k, (1000,)),
    "split": random.split,
    "split_many": lambda k: random.split(k, 1000),
    "randint": lambda k: random.randint(k, (3,), 0, 9),
    "gamma": lambda k: random.gamma(k, 2.0),
    "permutation": lambda k: random.permutation(k, 5),
    "bits_vmapped": lambda k: dx.vmap(random.bits)(k[None]),
    "jit": lambda k: dx.jit(lambda k: random.normal(k) + 1)(k),
    "grad": lambda k: dx.grad(lambda x: x * random.normal(k))(1.0),
    "scan": lambda k: lax.scan(lambda c, k: (c, random.normal(k)), 0, k[None]),
    "cond": lambda k: lax.cond(True, random.normal, lambda k: 0.0, k),
}
PAIRS = [(a, b) for i, a in enumerate(USES) for b in list(USES)[i:]]
FEW = [pair for i, pair in enumerate(PAIRS) if pair[0] == pair[1] or i % 7 == 0]


@pytest.mark.parametrize(("first", "second"), FEW, ids=str)
def test_two_uses_of_a_key(first: str, second: str):
    k = key()
    assert reports(USES[first], k) == []
    assert len(reports(USES[second], k)) == 1


@pytest.mark.parametrize("impl", first(["threefry2x32", "rbg", "unsafe_rbg"]))
@pytest.mark.parametrize("name", USES)
def test_two_uses_of_a_key_while_tracing(name: str, impl: str):
    use = USES[name]

    def twice(k: Any) -> Any:
        return use(k), use(k)

    assert len(reports(dx.jit(twice).trace, key(impl))) == 1
    assert reports(dx.jit(use).trace, key(impl)) == []


def test_reports_while_tracing_name_the_lines():
    lines = []

    @dx.jit
    def f(k: Any) -> Any:
        lines.append(here(1))
        a = random.normal(k)
        lines.append(here(1))
        return a + random.normal(k)

    (report,) = reports(f, key())
    assert f"first use: {lines[0]}" in report and f"second use: {lines[1]}" in report


def test_a_call_of_a_jitted_function_uses_its_arguments_at_the_line_of_the_call():
    f = dx.jit(lambda x, k: x * random.normal(k))
    k = key()
    first = here(1)
    f(1.0, k)
    second = here(1)
    (report,) = reports(lambda: f(1.0, k))
    assert f"first use: {first}" in report and f"second use: {second}" in report
    assert reports(f, 1.0, random.key(0)) == []


def test_a_jitted_function_uses_keys_that_it_captured():
    k = key()
    f = dx.jit(lambda x: x + random.normal(k))
    assert reports(f, 1.0) == []
    assert len(reports(random.normal, k)) == 1


def test_fold_in_twice_with_one_integer():
    k = key()
    assert reports(lambda: [random.fold_in(k, i) for i in range(3)]) == []
    assert len(reports(random.fold_in, k, 1)) == 1
    assert len(reports(dx.jit(lambda k: (random.fold_in(k, 3), random.fold_in(k, 3))).trace, key())) == 1


def test_fold_in_of_a_key_that_is_used_up():
    k = key()
    random.split(k)
    assert len(reports(random.fold_in, k, 1)) == 1  # split(k)[1] is the same key


@pytest.mark.parametrize(
    "select",
    [
        lambda ks: ks[1],
        lambda ks: ks[-3],
        lambda ks: list(ks)[1],
        lambda ks: ks[1:3][0],
        lambda ks: ks.reshape(2, 2)[0, 1],
        lambda ks: ks[::-1][2],
        lambda ks: next(k for i, k in enumerate(ks) if i == 1),
        lambda ks: dx.jit(lambda ks: ks[1:])(ks)[0],
        lambda ks: ks,
        lambda ks: ks[:2],
        dnp.copy,
    ],
)
def test_elements_share_the_uses_of_their_array(select: Any):
    def use(ks: Any) -> None:
        dx.vmap(random.normal)(ks) if ks.ndim else random.normal(ks)

    for one, other in [(select, lambda ks: ks[1]), (lambda ks: ks[1], select)]:
        ks = random.split(key(), 4)
        assert reports(use, one(ks)) == []
        assert len(reports(use, other(ks))) == 1
        assert reports(use, ks[3] if select(ks).ndim == 0 else key()) == []

    def traced(ks: Any) -> None:
        use(select(ks))
        use(ks[1])

    assert len(reports(dx.jit(traced).trace, random.split(key(), 4))) == 1


def test_elements_used_inside_a_jitted_function():
    first = dx.jit(lambda ks: random.normal(ks[0]))
    ks = random.split(key())
    assert reports(first, ks) == []
    assert reports(random.normal, ks[1]) == []
    assert len(reports(random.normal, ks[0])) == 1


def test_a_key_returned_used():
    @dx.jit
    def draw(k: Any) -> Any:
        new, sub = random.split(k)
        return new, sub, random.normal(sub), k

    new, sub, _, old = draw(key())
    assert reports(random.normal, new) == []
    assert len(reports(random.normal, sub)) == 1
    assert len(reports(random.normal, old)) == 1


# --- loops and branches -----------------------------------------------------------------------------------


def advancing(k: Any, _: Any) -> Any:
    k, sub = random.split(k)
    return k, random.normal(sub)


def draw_from_next(k: Any) -> Any:
    new, _ = random.split(k)
    return new, random.normal(new)


BAD_LOOPS = {
    "constant": lambda k: lax.scan(lambda c, _: (c + random.normal(k), None), 0.0, None, length=3),
    "carried": lambda k: lax.scan(lambda k, _: (k, random.normal(k)), k, None, length=3),
    "returned used": lambda k: lax.scan(lambda k, _: draw_from_next(k), k, None, length=3),
    "rows": lambda k: lax.scan(lambda c, k: (c, (random.normal(k), random.normal(k))), 0, random.split(k)),
    "static fold_in": lambda k: lax.scan(
        lambda c, _: (c, random.normal(random.fold_in(k, 3))), 0, None, length=3
    ),
    "while": lambda k: lax.while_loop(lambda c: c < 3, lambda c: c + random.normal(k), 0.0),
    "while carried": lambda k: lax.while_loop(
        lambda c: c[1] < 3, lambda c: (c[0], c[1] + random.normal(c[0])), (k, 0.0)
    ),
    "fori": lambda k: lax.fori_loop(0, 3, lambda i, c: c + random.normal(k), 0.0),
    "after": lambda k: (
        lax.scan(lambda c, _: (c, 0.0), k, None, length=3),
        random.normal(k),
        random.split(k),
    ),
    "cond then": lambda k: (lax.cond(True, random.normal, random.normal, k), random.normal(k)),
    "cond inside": lambda k: lax.cond(
        dnp.asarray(True), lambda k: random.normal(k) + random.normal(k), random.normal, k
    ),
}
GOOD_LOOPS = {
    "advancing": lambda k: lax.scan(advancing, k, None, length=3),
    "one step": lambda k: lax.scan(lambda c, _: (c + random.normal(k), None), 0.0, None, length=1),
    "rows": lambda k: lax.scan(lambda c, k: (c, random.normal(k)), 0, random.split(k)),
    "fold_in": lambda k: lax.scan(lambda c, i: (c, random.normal(random.fold_in(k, i))), 0, dnp.arange(3)),
    "while": lambda k: lax.while_loop(
        lambda c: c[1] < 3, lambda c: (random.split(c[0])[0], c[1] + 1), (k, 0)
    ),
    "clone": lambda k: lax.scan(lambda c, _: (c + random.normal(random.clone(k)), None), 0.0, None, length=3),
    "cond": lambda k: lax.cond(dnp.asarray(True), random.normal, lambda k: -random.uniform(k), k),
    "cond vmapped": lambda k: dx.vmap(lambda p: lax.cond(p, random.normal, lambda k: -random.uniform(k), k))(
        dnp.asarray([True, False])
    ),
    "cond vmapped keys": lambda k: dx.vmap(
        lambda p, k: lax.cond(p, random.normal, lambda k: -random.uniform(k), k)
    )(dnp.asarray([True, False]), random.split(k)),
    "while vmapped": lambda k: dx.vmap(
        lambda n, k: lax.while_loop(lambda c: c[1] < n, lambda c: (random.split(c[0])[0], c[1] + 1), (k, 0))
    )(dnp.asarray([1, 2]), random.split(k)),
    "grad of scan": lambda k: dx.grad(
        lambda x: lax.scan(lambda c, k: (c * random.normal(k), None), x, random.split(k))[0]
    )(1.0),
    "vmap of scan": lambda k: dx.vmap(lambda k: lax.scan(advancing, k, None, length=3)[1])(random.split(k)),
}


@pytest.mark.parametrize("name", BAD_LOOPS)
def test_reuse_in_loops_and_branches(name: str):
    assert len(reports(BAD_LOOPS[name], key())) == 1
    assert len(reports(dx.jit(BAD_LOOPS[name]).trace, key())) == 1


@pytest.mark.parametrize("name", GOOD_LOOPS)
def test_no_reuse_in_loops_and_branches(name: str):
    assert reports(GOOD_LOOPS[name], key()) == []
    assert reports(dx.jit(GOOD_LOOPS[name]), key()) == []


def test_loops_name_the_line_inside_as_both():
    def body(c: Any, _: Any) -> Any:
        lines.append(here(1))
        return c + random.normal(k), None

    lines: list[str] = []
    k = key()
    (report,) = reports(lambda: lax.scan(body, 0.0, None, length=3))
    assert report.count(lines[0]) == 2


# --- no false alarms --------------------------------------------------------------------------------------


def no_alarm_elements() -> None:
    ks = random.split(key(), 6)
    a, b = ks[:2]
    for k in (a, b, ks[2], ks[3:4].reshape(()), *ks[4:]):
        random.normal(k)


def no_alarm_zip() -> None:
    for k, n in zip(random.split(key(), 3), [1, 2, 3], strict=True):
        random.normal(k, (n,))


def no_alarm_equal_keys() -> None:
    for _ in range(2):
        random.normal(random.key(0))
    random.normal(random.wrap_key_data(random.key_data(random.key(0))))


def no_alarm_inspection() -> None:
    k = key()
    random.key_data(k), random.key_impl(k), repr(k), k == k, k.shape
    random.normal(random.wrap_key_data(random.key_data(k), impl=random.key_impl(k)))
    random.normal(k)
    random.key_data(k)


def no_alarm_clone() -> None:
    k = key()
    random.normal(random.clone(k)), random.normal(random.clone(k)), random.normal(k), random.clone(k)


def no_alarm_retracing() -> None:
    f = dx.jit(lambda x, k: x + random.normal(k, x.shape))
    for i in range(3):
        f(dnp.ones(3), random.key(i)), f(dnp.ones(4), random.key(i))
    k = key()
    f.trace(dnp.ones(5), k), f.lower(dnp.ones(3), k), f.eval_shape(dnp.ones(2), k)
    dx.make_jaxpr(f)(dnp.ones(7), k)
    f(dnp.ones(5), k)


def no_alarm_vmapped() -> None:
    dx.vmap(random.normal)(random.split(key(), 3))
    dx.vmap(lambda k, x: x * random.normal(k), in_axes=(None, 0))(key(), dnp.ones(3))
    dx.vmap(lambda k: random.normal(random.split(k)[1]))(random.split(key(), 3))
    dx.vmap(random.fold_in, (None, 0))(key(), dnp.arange(3))
    k = key()
    dx.vmap(lambda i: random.normal(random.fold_in(k, i)))(dnp.arange(3))
    dx.vmap(dx.vmap(random.bits))(random.split(key(), (2, 3)))
    # A loop repeats the key.
    dx.jit(lambda k, a: dx.vmap(lambda a: random.gamma(k, a, (2,)))(a))(key(), dnp.ones(3))


def no_alarm_tails() -> None:
    for draw in (random.truncated_normal, dx.jit(random.truncated_normal)):
        draw(key(), -dnp.ones(2), dnp.ones(2))


def no_alarm_derivatives() -> None:
    def loss(x: Any, k: Any) -> Any:
        a, b = random.split(k)
        noise = random.normal(a, x.shape) + random.cauchy(b)
        return (noise * x**2).sum()

    x = dnp.ones(3)
    for f in (loss, dx.jit(loss)):
        dx.grad(f)(x, key()), dx.value_and_grad(f)(x, key()), dx.jit(dx.grad(f))(x, key())
        dx.hessian(f)(x, key())
        dx.grad(lambda a: random.gamma(key(), a))(2.0)
        k = key()
        _, back = dx.vjp(lambda x, f=f, k=k: f(x, k), x)
        back(1.0), back(2.0)
        k = key()
        _, push = dx.linearize(lambda x, f=f, k=k: f(x, k), x)
        push(x), push(x)
        dx.vmap(dx.grad(f))(dnp.ones((2, 3)), random.split(key()))


def no_alarm_disable_jit() -> None:
    with dx.disable_jit():
        no_alarm_retracing()
        no_alarm_elements()


def no_alarm_raw() -> None:
    raw = random.PRNGKey(0)
    random.normal(raw), random.normal(raw)


NO_ALARM = [value for name, value in sorted(globals().items()) if name.startswith("no_alarm_")]


@pytest.mark.parametrize("f", NO_ALARM, ids=lambda f: f.__name__)
@pytest.mark.parametrize("impl", first(["threefry2x32", "rbg"]))
def test_no_false_alarm(f: Callable[[], None], impl: str):
    dx.config.update("default_prng_impl", impl)
    try:
        assert reports(f) == []
    finally:
        dx.config.update("default_prng_impl", "threefry2x32")


X = np.full(3, 0.5, np.float32)
SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "ball": lambda k: random.ball(k, 3),
    "bernoulli": random.bernoulli,
    "beta": lambda k: random.beta(k, X, X),
    "binomial": lambda k: random.binomial(k, 9, X),
    "binomial_many": lambda k: random.binomial(k, 9, 0.5, (1 << 14,)),
    "bits": lambda k: random.bits(k, (2,)),
    "categorical": lambda k: random.categorical(k, X),
    "cauchy": random.cauchy,
    "chisquare": lambda k: random.chisquare(k, 3.0),
    "choice": lambda k: random.choice(k, 5, (2,)),
    "choice_p": lambda k: random.choice(k, 3, (2,), p=X / 1.5),
    "choice_without": lambda k: random.choice(k, 5, (2,), replace=False),
    "choice_without_p": lambda k: random.choice(k, 3, (2,), replace=False, p=X / 1.5),
    "complex": lambda k: random.normal(k, (2,), "complex64"),
    "dirichlet": lambda k: random.dirichlet(k, X),
    "double_sided_maxwell": lambda k: random.double_sided_maxwell(k, 0.0, 1.0),
    "exponential": random.exponential,
    "f": lambda k: random.f(k, 3.0, 4.0),
    "gamma": lambda k: random.gamma(k, X),
    "generalized_normal": lambda k: random.generalized_normal(k, 2.0),
    "geometric": lambda k: random.geometric(k, 0.5),
    "gumbel": random.gumbel,
    "laplace": random.laplace,
    "loggamma": lambda k: random.loggamma(k, X),
    "logistic": random.logistic,
    "lognormal": random.lognormal,
    "maxwell": random.maxwell,
    "multinomial": lambda k: random.multinomial(k, 5, X / 1.5),
    "multivariate_normal": lambda k: random.multivariate_normal(k, X, np.eye(3, dtype=np.float32)),
    "orthogonal": lambda k: random.orthogonal(k, 3),
    "pareto": lambda k: random.pareto(k, 2.0),
    "permutation": lambda k: random.permutation(k, X),
    "poisson": lambda k: random.poisson(k, 3.0),
    "poisson_large": lambda k: random.poisson(k, 30.0),
    "poisson_many": lambda k: random.poisson(k, 30.0, (1 << 14,)),
    "rademacher": random.rademacher,
    "randint": lambda k: random.randint(k, (2,), 0, 5),
    "rayleigh": lambda k: random.rayleigh(k, 1.0),
    "t": lambda k: random.t(k, 3.0),
    "triangular": lambda k: random.triangular(k, 0.0, 0.5, 1.0),
    "truncated_normal": lambda k: random.truncated_normal(k, -1.0, 1.0),
    "uniform": random.uniform,
    "wald": lambda k: random.wald(k, 1.0),
    "weibull_min": lambda k: random.weibull_min(k, 1.0, 2.0),
}  # fmt: skip


def test_every_sampler_is_listed():
    makers = {
        "PRNGKey",
        "clone",
        "fold_in",
        "key",
        "key_data",
        "key_dtype",
        "key_impl",
        "split",
        "wrap_key_data",
    }
    assert set(random.__all__) - makers - {"normal"} <= set(SAMPLERS)


@pytest.mark.parametrize("impl", first(["threefry2x32", "rbg"]))
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_uses_its_key_once(name: str, impl: str):
    draw = SAMPLERS[name]
    assert reports(dx.jit(lambda k: draw(k)).trace, key(impl)) == []
    assert len(reports(dx.jit(lambda k: (draw(k), draw(k))).trace, key(impl))) == 1


@pytest.mark.parametrize(
    "name", ["bits", "bernoulli", "choice", "laplace", "randint", "permutation", "uniform"]
)
def test_every_sampler_uses_its_key_once_eagerly(name: str):
    draw, k = SAMPLERS[name], key()
    assert reports(draw, k) == []
    assert len(reports(draw, k)) == 1


# --- the option -------------------------------------------------------------------------------------------


def test_as_an_error():
    f = dx.jit(lambda k: random.normal(k) + random.normal(k))
    with dx.debug_key_reuse("error"):
        k = key()
        random.normal(k)
        with pytest.raises(KeyReuseError, match=re.escape("A random key is to be used once")):
            random.split(k)
        for _ in range(2):
            with pytest.raises(KeyReuseError, match=r"first use: .*test_key_reuse\.py"):
                f(key())


def test_uses_are_not_remembered_while_the_option_is_off():
    k = key()
    with dx.debug_key_reuse("off"):
        random.normal(k), random.normal(k), dx.jit(lambda k: (random.split(k), random.split(k)))(k)
    assert reports(random.normal, k) == []  # what was not watched is not held against the key


@pytest.mark.parametrize(
    ("value", "meaning"), [(True, "error"), (False, "off"), ("warn", "warn"), ("1", "error")]
)
def test_the_option_takes_bools(value: Any, meaning: str):
    before = dx.config.debug_key_reuse
    try:
        dx.config.update("jax_debug_key_reuse", value)
        assert dx.config.debug_key_reuse == meaning
    finally:
        dx.config.update("debug_key_reuse", before)
    with dx.debug_key_reuse(value):
        assert dx.config.debug_key_reuse == meaning


def test_other_values_of_the_option():
    with pytest.raises(ValueError, match=r"'off', 'warn', 'error'"):
        dx.config.update("debug_key_reuse", "loud")
    with pytest.raises(ValueError, match="debug_key_reuse"):
        dx.config.update("debug_key_reuse", 3)
