"""Programs of libraries, for jax and for the layer; `library_programs.py optax` prints the results of one as JSON.

`libraries.py` runs them all and compares the numbers with those that JAX gave.
"""

import json
import sys

import jax
import jax.numpy as jnp


def optax():
    import optax

    x = jax.random.normal(jax.random.key(0), (32, 5))
    y = jnp.sin(x.sum(-1))
    schedule = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(1e-1, 20)))
    for optimizer in (schedule, optax.adamw(1e-2), optax.lion(1e-2)):
        weights = {"w": jnp.ones(5) / 3, "b": jnp.zeros(())}
        state = optimizer.init(weights)

        @jax.jit
        def step(weights, state, optimizer=optimizer):
            loss = lambda p: jnp.mean((jnp.tanh(x @ p["w"] + p["b"]) - y) ** 2)
            value, slopes = jax.value_and_grad(loss)(weights)
            updates, state = optimizer.update(slopes, state, weights)
            return optax.apply_updates(weights, updates), state, value

        for _ in range(5):
            weights, state, value = step(weights, state)
        yield value


def chex():
    import chex

    chex.assert_shape(jnp.ones((2, 3)), (2, 3))
    chex.assert_trees_all_close({"a": jnp.ones(2)}, {"a": jnp.ones(2)})

    @chex.dataclass
    class Point:
        x: chex.Array

    yield jax.jit(jax.grad(lambda p: (p.x**3).sum()))(Point(x=jnp.arange(3.0))).x


def equinox():
    import equinox as eqx
    import equinox.internal as eqxi

    key = jax.random.key(0)
    model = eqx.nn.MLP(3, 2, 8, 1, key=key)
    x = jax.random.normal(key, (4, 3))
    loss = eqx.filter_jit(eqx.filter_value_and_grad(lambda m, x: (jax.vmap(m)(x) ** 2).mean()))
    yield from (loss(model, x)[0], loss(model, x)[1].layers[0].weight)
    grow = lambda y: eqxi.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.1), (0, y), kind="checkpointed", max_steps=8
    )[1]
    yield jax.grad(grow)(1.0)
    yield eqx.filter_jvp(jnp.sin, (jnp.array(1.0),), (jnp.array(1.0),))


def lineax():
    import lineax as lx

    a = jnp.array([[4.0, 1.0], [1.0, 3.0]])
    for solver in (lx.LU(), lx.CG(1e-6, 1e-6), lx.SVD()):
        tags = lx.positive_semidefinite_tag
        yield lx.linear_solve(lx.MatrixLinearOperator(a, tags), jnp.ones(2), solver).value
    yield jax.grad(lambda a: lx.linear_solve(lx.MatrixLinearOperator(a), jnp.ones(2)).value.sum())(a)


def optimistix():
    import optimistix as optx

    solve = lambda a: optx.root_find(
        lambda y, a: jnp.cos(y) - a * y, optx.Newton(1e-6, 1e-6), jnp.array(0.5), args=a
    )
    yield jax.value_and_grad(lambda a: solve(a).value)(1.0)


def diffrax():
    import diffrax as dfx

    def solve(rate):
        term = dfx.ODETerm(lambda t, y, a: -a * y)
        steps = dfx.PIDController(1e-5, 1e-6)
        return dfx.diffeqsolve(
            term, dfx.Tsit5(), 0.0, 1.0, 0.1, jnp.ones(2), rate, stepsize_controller=steps
        ).ys

    yield jax.jit(jax.value_and_grad(lambda a: solve(a).sum()))(0.7)


def linen():
    import flax.linen as nn

    key = jax.random.key(0)
    for module, x in [
        (nn.Sequential([nn.Conv(2, (3,)), nn.relu, nn.Dense(3)]), jnp.ones((2, 6, 1))),
        (nn.RNN(nn.LSTMCell(3)), jnp.ones((2, 4, 3))),
        (nn.MultiHeadDotProductAttention(2), jnp.ones((2, 4, 4))),
    ]:
        yield module.init_with_output(key, x)[0]


def nnx():
    import optax
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first, self.last = nnx.Linear(3, 8, rngs=rngs), nnx.Linear(8, 1, rngs=rngs)
            self.norm, self.dropout = nnx.BatchNorm(8, rngs=rngs), nnx.Dropout(0.2, rngs=rngs)

        def __call__(self, x):
            return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))

    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    x = jax.random.normal(jax.random.key(1), (16, 3))

    @nnx.jit
    def step(model, optimizer):
        loss, slopes = nnx.value_and_grad(lambda m: ((m(x)[:, 0] - x.sum(-1)) ** 2).mean())(model)
        optimizer.update(model, slopes)
        return loss

    for _ in range(4):
        yield step(model, optimizer)
    yield model.norm.var[...]


def blackjax():
    import blackjax

    logdensity = lambda x: -(x**2).sum()
    sampler = blackjax.nuts(logdensity, 0.3, jnp.ones(2))
    step = jax.jit(sampler.step)
    state = sampler.init(jnp.ones(2))
    for key in jax.random.split(jax.random.key(0), 4):
        state, _ = step(key, state)
        yield state.position


def distrax():
    import distrax

    key = jax.random.key(0)
    shape = jnp.array([0.5, 3.0])
    for law in (distrax.Gamma(shape, 2.0), distrax.Beta(shape, 1.5), distrax.Categorical(logits=shape)):
        yield law.sample(seed=key, sample_shape=4)
        yield law.log_prob(law.sample(seed=key))
    flow = distrax.Chain([distrax.Tanh(), distrax.ScalarAffine(0.5, 2.0)])
    law = distrax.Transformed(distrax.Normal(0.0, 1.0), flow)
    yield jax.grad(lambda x: law.log_prob(x).sum())(jnp.array([0.1, -0.3]))


def jaxtyping():
    import beartype
    from jaxtyping import Array, Float, PRNGKeyArray, jaxtyped

    @jaxtyped(typechecker=beartype.beartype)
    def product(x: Float[Array, "n k"], y: Float[Array, "k m"], key: PRNGKeyArray) -> Float[Array, "n m"]:  # noqa: F722  # shapes, not types
        return x @ y + jax.random.normal(key, (x.shape[0], y.shape[1]))

    yield jax.jit(product)(jnp.ones((2, 3)), jnp.ones((3, 1)), jax.random.key(0))
    try:
        product(jnp.ones((2, 3)), jnp.ones((2, 1)), jax.random.key(0))
    except Exception:
        yield jnp.ones(())


def einops():
    from einops import einsum, rearrange, reduce, repeat

    x = jnp.arange(12.0).reshape(2, 2, 3)
    yield jax.jit(lambda x: rearrange(x, "b h w -> (b h) w"))(x)
    yield jax.grad(lambda x: (reduce(x, "b h w -> b w", "max") ** 2).sum())(x)
    yield einsum(x, repeat(x[0], "h w -> b h w", b=2), "b h w, b g w -> b h g")


def orbax():
    import tempfile

    import orbax.checkpoint as ocp

    state = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(2, "bfloat16"), "step": 3}
    with tempfile.TemporaryDirectory() as folder:
        with ocp.StandardCheckpointer() as files:
            files.save(f"{folder}/one", state)
            files.wait_until_finished()
            like = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
            back = files.restore(f"{folder}/one", like)
        yield from (back["w"], back["b"].astype("float32"), jnp.array(back["step"]))
        with ocp.CheckpointManager(f"{folder}/many") as steps:
            for step in range(2):
                steps.save(step, args=ocp.args.StandardSave(jax.tree.map(lambda x: x * step, state)))
            steps.wait_until_finished()
            yield steps.restore(steps.latest_step(), args=ocp.args.StandardRestore(like))["w"]


def numpyro():
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide

    def model(y):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    svi = SVI(model, autoguide.AutoNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
    yield svi.run(jax.random.PRNGKey(0), 20, jnp.ones(5), progress_bar=False).losses[-1]
    mcmc = MCMC(NUTS(model), num_warmup=20, num_samples=5, progress_bar=False)
    mcmc.run(jax.random.PRNGKey(1), jnp.ones(5))
    # A chain amplifies each rounding, so its numbers are not compared, only that it runs.
    yield mcmc.get_samples()["mean"][:2] * 0.0
    yield dist.GammaPoisson(2.0, 0.5).sample(jax.random.PRNGKey(2), (4,)).astype("float32")


def quax():
    """An array that knows its unit and one of low rank, in functions that know neither."""
    import equinox as eqx
    import quax
    from quax.examples import lora

    class Length(quax.ArrayValue):
        metres: jax.Array
        power: int = eqx.field(static=True)

        def aval(self):
            return jax.core.ShapedArray(self.metres.shape, self.metres.dtype)

        def materialise(self):
            raise ValueError("a length is no number")

    @quax.register(jax.lax.mul_p)
    def times(x: Length, y: Length, **_):
        return Length(x.metres * y.metres, x.power + y.power)

    @quax.register(jax.lax.reduce_sum_p)
    def total(x: Length, *, axes, **_):
        return Length(jnp.sum(x.metres, axes), x.power)

    area = quax.quaxify(jax.jit(lambda x, y: jnp.sum(x * y)))(
        *[Length(jnp.arange(1.0, 4.0) * n, 1) for n in (1, 2)]
    )
    yield from (area.metres, jnp.array(area.power))
    layer = eqx.nn.Linear(3, 4, key=jax.random.key(0))
    layer = lora.loraify(layer, rank=2, key=jax.random.key(1))

    @eqx.filter_grad
    def slope(layer, x):
        return jnp.sum(jax.nn.relu(quax.quaxify(layer)(x)) ** 2)

    x = jnp.arange(3.0)
    yield quax.quaxify(layer)(x)
    yield from jax.tree.leaves(slope(layer, x))
    yield quax.quaxify(lambda f, x: jax.lax.scan(lambda c, _: (jnp.tanh(f(c)[:3]), c[0]), x, None, 4))(
        layer, x
    )[0]


found = [jax.tree.map(lambda x: x.tolist(), out) for out in globals()[sys.argv[1]]()]
print(json.dumps(jax.tree.leaves(found)))
