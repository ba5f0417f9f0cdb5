"""`explore` of programs on several devices."""

import didax as dx
import didax.numpy as dnp
from didax import lax


def test_a_program_that_each_device_runs_on_its_part():
    mesh = dx.make_mesh((4,), ("i",), devices=dx.devices()[:4])
    f = dx.shard_map(lambda x: lax.psum(x * 2, "i"), mesh=mesh, in_specs=dx.P("i"), out_specs=dx.P())
    page = dx.explore(f, dnp.ones((8, 4)))
    assert [p["name"] for p in page.data["programs"]] == ["none", "vmap", "linearize", "linear"]
    own = page.data["programs"][0]
    assert "all-reduce" in " ".join(row[1] for row in own["xla"])
    flops = {name: (flops, flags & 1) for _, name, _, _, flops, _, _, flags, *_ in own["equations"]}
    assert flops["mul"] == (8 * 4, 0)  # of all devices together
    assert flops["psum"] == (0, 1)  # what devices exchange is not counted, and said so
