"""Differences from jax that are meant: a finding that matches a row is counted under its reason, and is no fault.

The first two columns are regular expressions for the kind of a finding and for what it is about (the operation, the
message and the text of the program, in one string). The reasons are those of docs/differences.md.
"""

from __future__ import annotations

import re

from tests.fuzz.comparison import Finding

WEAK_TYPES = "weak types by the rule of docs/promotion.md"
WEAK_DERIVATIVES = "weak types of derivatives whose formulas have constants: kept"
DERIVATIVE = r"\b(\w*grad|jvp|vjp|linearize|(?<!\.)transpose|hessian|jacfwd|jacrev)\b"
TWO_DERIVATIVES = rf"(\bhessian\b|{DERIVATIVE}.*{DERIVATIVE})"
OPPOSITE = r"didax \[(-?)(\d[^\]]*)\], jax \[(?!\1\d)-?\2\]"  # one number with either sign
KNOWN = [
    # kind, about, reason
    (
        "jax refuses",
        r"NotImplementedError",
        "rules that jax has not: of pmax, nextafter, scatter_apply, eig, ...",
    ),
    ("jax refuses", r"forward-mode autodiff \(jvp\) to a custom_vjp", "forward mode through a custom_vjp"),
    (
        "jax refuses",
        r"lax\.\w+ requires arguments to have the same dtypes",
        "Python scalars take an array's dtype",
    ),
    (
        "jax refuses",
        r"pow does not accept dtype|two inexact dtypes must match",
        "lax.pow takes integers, and weak numbers",
    ),
    ("jax refuses", r"must be integers of the same type", "start indices may differ in their dtypes"),
    (
        "jax refuses",
        r"FFT input must be float32 or float64",
        "fft of float16 and bfloat16 is computed in float32",
    ),
    ("jax refuses", r"^(nn|special)\.", "activations and special functions take integers and narrow floats"),
    ("jax refuses", r"failed to legalize operation .chlo\..*f8E", "special functions of narrow floats"),
    ("didax refuses", r"hfft transforms at least one point", "hfft of one point, as in NumPy"),
    ("jax refuses", r"Betainc gradient with respect to a and b", "derivatives of betainc by its parameters"),
    (
        "didax refuses",
        r"fold_in takes an integer of 32 bits",
        "jax refuses -1 eagerly, too, and takes it under jit",
    ),
    ("jax refuses", r"select cases must have the same shapes", "derivatives of clamp between scalars"),
    ("jax refuses", r"Invalid integer data type .V.", "reductions of 4-bit integers"),
    ("jax refuses", r"Unknown gather mode .wrap", "updates with mode='wrap'"),
    ("jax refuses", r"Betainc gradient with respect to a and b", "cond on a known value stages one branch"),
    ("jax refuses", r"Index type must be an integer, got .*int4", "switch by any integer dtype"),
    (
        "jax refuses",
        r"^np\.logical_\w+.*(float8|int[24])",
        "truth values of narrow numbers beside other dtypes",
    ),
    ("jax refuses", r"abs does not accept dtype", "gcd and abs of narrow integers"),
    ("jax refuses", r"^(np|integrate)\.trapezoid", "trapezoid of no elements"),
    (
        "jax refuses",
        r"No constant handler for type|Unsupported reduction computation"
        r"|argument to reduce_sum as a JAX value|IsMonotonicWithDim0Major"
        r"|Unable to convert MHLO|clamp.*AssertionError|AssertionError.*clamp",
        "faults of jax",
    ),
    ("jax refuses", r"is not supported by dot_general on CPU", "attention in float16"),
    ("jax refuses", r"logical reduction requires .* got u?int[24]", "reductions of 4-bit integers"),
    (
        "jax refuses",
        r"[lg]t does not accept dtype complex.*\barg(max|min)\(",
        "argmax and argmin of complex numbers",
    ),
    (
        "jax refuses",
        r"got axis spec None but output was batched.*(new_ref|lax\.empty)\(",
        "jacfwd of functions with Refs, of constants",
    ),
    (
        "jax refuses",
        r"reduce_precision does not accept dtype complex.*checkpoint",
        "complex numbers that checkpoint saves",
    ),
    (
        "jax refuses",
        r"(has no attribute .?(accum|ref\b)|discharge_rule\(\)).*new_ref",
        "transposes of scans with Refs",
    ),
    ("didax refuses", r"bucket= takes arrays that lie on one device", "buckets of distributed arrays"),
    (
        "value",
        r"(nan|inf).*\.(a|arc)?(sin|cos|tan|exp|log|sqrt)(h|2|m1|1p|10)?\(.*complex",
        "elementary functions of complex infinities and NaN",
    ),
    ("value", r"jax \[[^\]]*nan.*np\.(polyfit|linalg\.lstsq)\(", "least squares of infinite values"),
    ("jax refuses", r"clamp requires max.shape", "vmap of clamp between scalars"),
    ("didax refuses", r"^(np|lax)\.full\w* .*must fit the integer dtype", "integers out of a dtype's range"),
    (
        "type",
        r"^np\.(argpartition|digitize|searchsorted|ravel_multi_index)",
        "indices have the default width",
    ),
    (
        "type",
        r"^np\.(nan)?(median|quantile|percentile)\b.*keepdims=True",
        "keepdims keeps no axes where there are none",
    ),
    ("weak type", r"^lax\.custom_(root|linear_solve)", "solutions are not weakly typed"),
    (
        "type",
        r"\bnn\.\w+\(.*(int|bool)|astype\('u?int\d+'\).*\bnn\.\w+\(",
        "activations of integers are floats",
    ),
    (
        "weak type",
        r"^(nn|special)\.|^(lib|lax)\.\w+ .*\b(nn|special)\.\w+\(",
        WEAK_TYPES,
    ),  # within blocks, too
    ("type", r"^np\.angle ", "angles keep the dtype"),
    ("type", r"^np\.cumulative_prod", "running products of narrow integers have the default width"),
    (
        "weak type",
        r"\bnp\.(hypot|angle|gcd|lcm|heaviside|logaddexp2|sinc|deg2rad|rad2deg|radians|degrees)\(",
        WEAK_TYPES,
    ),
    (
        "weak type",
        DERIVATIVE + r".*\b(\w*pow\w*|log2|log10|clamp|clip|a?max|a?min|pad|spence)\(",
        WEAK_DERIVATIVES,
    ),
    ("weak type", DERIVATIVE + r".*didax \w+\[[\d,]*\]\*[,;] jax \w+\[[\d,]*\] ", WEAK_DERIVATIVES),
    ("value", r"jax \[[^\]]*nan.*np\.linalg\.(vector_|matrix_)?norm", "derivatives of norm at 0"),
    ("value", r"didax \[ *-?0\..*\.(abs|absolute|fabs)\(", "the derivative of abs at 0"),
    (
        "value",
        r"jax \[[^\]]*nan.*(\b(pow|power|float_power)\(|v\d+ \*\* v\d)",
        "derivatives of negative powers at 0, of the power 0 of 0",
    ),
    (
        "value",
        r"jax \[[^\]]*(nan|inf).*linalg\.(inv|matrix_power|solve|tensorinv)\(",
        "inverses of singular matrices are NaN",
    ),
    ("value", r"jax \[[^\]]*nan.*linalg\.qr\(", "derivatives of qr of dependent columns"),
    ("value", r"jax \[[^\]]*nan.*(logsumexp|logaddexp\d?)\(", "derivatives of logsumexp at infinities"),
    ("value", r"jax \[[^\]]*nan.*float8_e4m3", "functions of float8 are computed in float32"),
    ("value", r"didax \[[^\]]*nan.*linalg\.det\(", "derivatives of det of matrices that hold NaN"),
    ("value", r"lax\.mulhi\(.*int4", "mulhi of 4-bit integers"),
    (
        "value",
        r"lax\.reduce\(.*\[(\d+,)*1[],]",
        "the init value of a reduction counts once, over one element, too",
    ),
    ("value", r"(scatter_apply|\.apply)\(", "functions are applied once where indices repeat"),
    ("value", r"np\.(arg)?partition\(", "the order within the parts of a partition is not specified"),
    ("value", r"jax \[[^\]]*nan.*special\.beta\(", "derivatives of beta of negative numbers"),
    ("value", r"special\.bernoulli", "Bernoulli numbers are exact"),
    ("value", r"dot_product_attention\(.*float64", "attention of float64 keeps its digits"),
    ("value", r"jax \[nan.*special\.(expi|exp1|expn)\(.*float16", "special functions of float16"),
    ("value", r"didax \[nan.*special\.(rel_entr|kl_div)", "rel_entr and kl_div of NaN"),
    ("value", r"jax \[[^\]]*nan.*cholesky_update\(", "updates with NaN and infinities, which jax spreads"),
    (
        "value",
        r"jax \[[^\]]*nan.*conv_general_dilated_patches\(",
        "patches are moved, not multiplied by 0 and 1",
    ),
    ("value", r"special\.bessel_jn", "Bessel functions of small and of large arguments"),
    (
        "value",
        r"didax \[-?0\..*jax \[nan.*np\.(maximum|clip)\(",
        "derivatives of maxima that are NaN, times infinity",
    ),
    ("value", DERIVATIVE + r".*\b(a|arc)cosh\(", "the derivative of arccosh left of the imaginary axis"),
    ("type", r"\bspecial\.owens_t\(", "owens_t keeps narrow floats"),
    (
        "didax refuses",
        r"^np\.array_equiv .*promote to no common dtype",
        "jax catches the error of equal: False",
    ),
    ("value", r"jax \[[^\]]*nan.*special\.spence", "derivatives of spence between 1 and 2"),
    ("value", r"jax \[[^\]]*nan.*special\.poch\(", "ratios of gamma functions that overflow"),
    ("value", r"didax \[-inf.*jax \[nan.*special\.(expi|exp1)\(", "poles of exponential integrals"),
    ("value", r"\bnp\.insert\(.*uint", "negative floats that become unsigned integers"),
    ("value", r"special\.log_ndtr\(", "log_ndtr keeps its digits where it is nearly 0"),
    ("value", r"jax \[[^\]]*nan.*\b(nan)?std\(", "derivatives of std of equal numbers"),
    ("value", r"jax \[[^\]]*nan.*\b(nan)?var\(.*(where|ddof)=", "derivatives of var of too few elements"),
    ("value", r"jax \[[^\]]*nan.*segment_(min|max)\(", "infinite tangents of elements that are not chosen"),
    (
        "type",
        r"didax u?int(32|64)\S* jax .*np\.(argpartition|digitize|searchsorted|ravel_multi_index)\(",
        "indices have the default width, within blocks too",
    ),
    (
        "jax refuses",
        r"Reverse-mode differentiation does not work for lax\.while",
        "only the branch that is taken",
    ),
    (
        "jax refuses",
        r"^np\.poly(add|sub) .*Incompatible types for broadcasting",
        "polynomials without numbers",
    ),
    ("jax refuses", r"^np\.(array_|[dhv])?split .*must be nonnegative", "split positions beyond the end"),
    ("value", r"jax \[[^\]]*nan.*\b(arctan2|atan2)\(", "the derivative of arctan2 at 0"),
    ("value", r"lax\.approx_(max|min)_k\(", "where NaN stands among approximate extrema"),
    ("value", DERIVATIVE + r".*jax \[0\..*np\.a?(max|min)\(.*axis=\(\)", "extrema of NaN over no axes"),
    ("value", r"didax \[[^\]]*nan.*special\.(comb|binom|perm)\(", "derivatives of comb at NaN"),
    ("value", DERIVATIVE + r".*(np|lax)\.sign\(.*complex", "derivatives of sign of complex numbers"),
    ("value", r"special\.expn\(", "expn at 0 is 1 / (n - 1)"),
    ("jax refuses", r"verifier errors.*\.apply\(", "integers to which a function of floats is applied"),
    (
        "value",
        r"didax \[-?0\.\], jax \[nan\].*np\.modf\(",
        "the fraction of an infinite number is 0, as in NumPy",
    ),
    (
        "value",
        r"didax \[-?0\.[^\]]*\], jax \[-1\..*//",
        "floor division by infinities, as in the array API",
    ),
    (
        "value",
        r"didax \[(?![^\]]*nan)[^\]]*\], jax \[[^\]]*nan.*lax\.ragged_dot\(",
        "rows of other groups are left out, not multiplied by 0",
    ),
    ("value", r"didax \[[^\]]*(e\+|inf).*jax \[nan.*dot_product_attention\(", "attention with huge scores"),
    ("value", r"jax \[[^\]]*nan.*np\.vander\(", "derivatives of powers 0 and 1 of NaN"),
    (
        "value",
        TWO_DERIVATIVES + r".*nn\.soft_sign\(",
        "second derivatives of soft_sign at 0, where both sides differ",
    ),
    ("value", r"jax \[nan.*np\.polymul\(.*complex", "products of real infinities and complex numbers"),
    ("value", r"didax \[0\.\], jax \[-?\d\.\d+e-1[56]\].*multigammaln\(", "multigammaln where it is 0"),
    (
        "value",
        r"didax \[[^\]]*inf[^\]]*\], jax \[[^\]]*nan.*\bdivmod\(",
        "floor division of infinities, as in the array API",
    ),
    ("value", DERIVATIVE + r".*jax \[[^\]]*nan.*\bcum(max|min)\(", "derivatives of running extrema at NaN"),
    ("value", TWO_DERIVATIVES + r".*\bcelu\(", "second derivatives of celu at 0, where both sides differ"),
    ("weak type", r"\bcross\(.*(int64.*uint64|uint64.*int64)", WEAK_TYPES),
    (
        "weak type",
        r"didax int(32|64)\[\]\*; jax int\1\[\].*np\.pow(er)?\(",
        "Python integers to powers, as jax eagerly",
    ),
    ("jax refuses", r"^np\.frexp .*KeyError", "frexp of narrow floats"),
    ("jax refuses", r"^np\.place .*implicit dtype promotion", "updates take the dtype of the operand"),
    ("value", DERIVATIVE + r".*\b(special|np)\.i[01]\(", "derivatives of Bessel functions at 0"),
    ("value", DERIVATIVE + r".*jax \[[^\]]*nan.*np\.angle\(", "the derivative of angle at 0"),
    (
        "value",
        r"didax \[3\.14.*jax \[-?0\..*associative_scan\(.*angle\(",
        "associative_scan keeps the signs of zeros",
    ),
    ("value", OPPOSITE + r".*np\.copysign\(", "derivatives of copysign at -0.0 and NaN"),
    ("value", OPPOSITE + r".*linalg\.svd\(", "derivatives of singular values at 0"),
    (
        "value",
        DERIVATIVE + r".*didax \[[^\]]*(inf|nan).*special\.(rel_entr|kl_div)\(",
        "derivatives by p at 0",
    ),
    ("value", r"didax \[[^\]]*inf.*jax \[[^\]]*nan.*\btanh\(", "infinite cotangents of tanh"),
    ("jax refuses", r"jac(rev|obian).*TypePromotionError.*float8", "jacrev of float8 beside other dtypes"),
    ("value", r"didax \[[^\]]*nan.*jax \[-?inf.*divide\(.*-0\.0", "0 / 0, which XLA simplifies to infinity"),
    (
        "jax refuses",
        r"Pure callbacks do not support JVP",
        "callbacks of what does not depend on the arguments",
    ),
    (
        "didax refuses",
        r"pure_callback cannot be differentiated.*\[([\d,]*,)?0[],]",
        "callbacks of no elements",
    ),
    ("didax refuses", r"scatter_mul has no derivative by its updates", "products of segments: in jax, too"),
    ("value", r"didax \[127\], jax \[255\].*bitcast_convert_type\(", "the bits of NaN"),
    ("value", r"jax \[[^\]]*nan.*\btrapezoid\(", "derivatives of trapezoid of one point: 0; infinities"),
    (
        "value",
        r"didax \[(?![^\]]*nan)[^\]]*\], jax \[[^\]]*nan.*lax\.cond\(",
        "only the branch that is taken is differentiated",
    ),
    ("value", r"didax \[[^\]]*inf.*jax \[[^\]]*nan.*np\.prod\(", "products of infinite numbers"),
    (
        "value",
        r"didax \[(?![^\]]*nan)[^\]]*\], jax \[[^\]]*nan.*\bcum(ulative_)?prod\(",
        "running products of infinite numbers",
    ),
    ("value", r"jax \[[^\]]*nan.*np\.fft\.\w+\(.*norm=", "transforms of infinities, scaled"),
    ("value", r"\bcum(ulative_)?sum\(.*float8", "running sums of float8 are rounded once"),
    ("jax refuses", r"^np\.histogram\w* .*zero-size array", "histograms of no samples, as in NumPy"),
    ("value", r"didax \[[^\]]*nan.*jax \[0\..*matrix_norm\(", "derivatives of norms of NaN"),
    (
        "value",
        r"didax \[0\..*jax \[nan.*\b(igamma|gammainc)c?\(",
        "gammainc of infinite parameters, as in SciPy",
    ),
    ("value", r"^jac.*didax \[nan.*jax \[0\..*\bsqrt\(", "0 times infinity, which XLA simplifies to 0"),
    ("didax refuses", r"householder_product. cannot be differentiated", "holes of docs/primitives.md"),
    ("type", r"\bsla\.pascal\(", "Pascal matrices have the default width"),
    ("value", r"\[[^\]]*nan.*\bsignal\.\w+\(", "infinite numbers beside the zeros that pad a signal"),
    (
        "value",
        r"jax \[[^\]]*nan.*\bsla\.(solve|inv|cho_solve|lu_solve|solve_triangular)\(",
        "derivatives of solutions of systems that hold NaN or are singular",
    ),
    ("value", r"jax \[[^\]]*nan.*\bmap_coordinates\(", "derivatives at places that are NaN"),
    (
        "value",
        r"didax \[ *-?\d+[ \]][^.]*(np\.pow(er)?\(|v\d+ \*\* v\d).*int",
        "integers to negative powers wrap exactly",
    ),
    (
        "value",
        r"didax \[[^\]]*inf.*jax \[[^\]]*nan.*divide\(.*-0\.0.*complex",
        "complex infinities divided by a constant",
    ),
    ("value", r"didax \[-?0\..*jax \[nan.*special\.polygamma\(", "polygamma at infinity"),
    ("value", r"jax \[(nan|0\.).*special\.expi\(", "expi is -inf at 0, as in SciPy"),
    ("value", r"jax \[.*nan.*nn\.squareplus\(", "squareplus vanishes at -inf"),
    (
        "value",
        DERIVATIVE + r".*special\.spence\(",
        "spence of negative numbers is NaN, and so are its derivatives",
    ),
    ("value", r"didax \[-0\.99.*nn\.soft_sign\(", "the least integers have absolute values"),
    (
        "value",
        DERIVATIVE + r".*didax \[nan.*jax \[-?inf.*np\.(mod|remainder|fmod)\(",
        "derivatives of x mod 0",
    ),
    ("value", r"jax \[.*nan.*special\.betaln\(", "derivatives of betaln of negative numbers"),
    ("value", r"didax \[-?0\b.*jax \[nan.*np\.ptp\(", "infinite slopes reach only what an extremum is"),
    (
        "value",
        r"didax \[-inf.*np\.(remainder|mod)\(.*np\.reciprocal\(",
        "zeros of remainders have NumPy's signs",
    ),
    ("value", r"didax \[[01]\.\].*special\.comb\(.*special\.gammaincc?\(", "gammainc of large parameters"),
    ("value", r"jax \[.*nan.*np\.(convolve|correlate)\(.*complex", "sums of complex infinities"),
    ("jax refuses", r"ZeroDivisionError: integer modulo by zero", "faults of jax"),
    ("jax refuses", r"KeyError: Var\(id=", "faults of jax"),
    (
        "value",
        r"didax \[nan.*jax \[\d.*dynamic_update_slice_in_dim\(.*shard_map\(",
        "positions out of bounds of sharded arrays",
    ),
    (
        "value",
        DERIVATIVE + r".*reduce_window\(.*concatenate\(.*shard_map\(",
        "compiled windows of sharded arrays",
    ),
]


def reason(finding: Finding) -> str | None:
    """Why a finding is meant, or None."""
    types = [
        str(finding.program.types[name]) for name in finding.program.inputs if name in finding.program.types
    ]
    lines = [line for statement in finding.program.refused for line in statement.lines()]
    about = " ".join([finding.where, finding.message, *finding.program.lines(), *lines, *types])
    if finding.kind.startswith("value") and len(finding.program.statements) > 4:
        return None  # only a program that is shrunk tells which operation it is
    for kind, pattern, why in KNOWN:
        if re.search(kind, finding.kind) and re.search(pattern, about):
            return why
    return None
