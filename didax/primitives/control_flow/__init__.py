"""Loops, branches and linear systems: primitives that hold jaxprs, each declared once with all of its rules.

| primitive | file | the computation |
|---|---|---|
| `cond_p` | `cond.py` | one of several branches |
| `scan_p` | `scan.py` | a known number of steps |
| `counted_p` | `counted.py` | a number of steps that is known when the loop starts |
| `while_p` | `while_loop.py` | steps for as long as a condition holds |
| `bounded_p` | `bounded.py` | the same, at most so many: reverse mode saves every step |
| `checkpointed_p` | `checkpointed.py` | the same without a bound: reverse mode saves a few carries |
| `replay_p` | `replay.py` | steps along the carries of such a loop, for its derivatives |
| `linear_solve_p` | `linear_solve.py` | a solution by a solver of the user's |

What the rules of loops are written with: `layout.py`, which operands are which; `bodies.py`, `halves.py`,
`transposition.py` and `checkified.py`, transformed bodies; `unchanged.py`, parts of a carry that are constants;
`batches.py`, `masked.py` and `effects.py`, batches of which not all elements take part; `lowering.py`, loops as text;
`accumulate.py` and `order.py`, updates in place; `saved_carries.py`, which carries are saved. `segments.py` cuts loops
into checkpointed segments.
Read next: `layout.py`, then `scan.py`.
"""
