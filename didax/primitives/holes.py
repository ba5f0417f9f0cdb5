"""Reasons why primitives lack a rule, which declarations of several families give.

    holes = {"transpose": NOT_LINEAR}

The error of a rule that is missing ends with its reason, and so does the table in `docs/primitives.md`. Read next:
`Primitive.holes` in `core/primitive.py`.
"""

NOT_LINEAR = "the operation is not linear"
NOT_DIFFERENTIABLE = "its result is piecewise constant: tangents vanish"
