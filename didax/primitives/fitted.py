"""Special functions by fitted polynomials: scaled Bessel functions, error functions, exponential integrals.

    bessel_i0e, bessel_i1e   exp(-|x|) I_n(x), and bessel_i0, bessel_i1 without the factor
    erfcx                    exp(x^2) erfc(x), which neither overflows nor vanishes for x > 0
    erfinv                   the inverse of erf
    ndtr, log_ndtr, ndtri    the normal distribution function, its logarithm, and the inverse of that
    exp1, expi               the exponential integrals E1 and Ei

Each function divided by its behaviour at infinity is smooth in a variable that maps its range to [-1, 1]; there it is a
sum of Chebyshev polynomials, whose coefficients (cut below 1e-17 of the largest) were computed with 40 digits from the
definition. Derivatives are those of the function, not of the fit.
Read next: `special.py`, functions that need a loop; `didax/scipy/special.py`, what users call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from didax.core import dtypes
from didax.core.avals import aval_of
from didax.primitives.composed import composed, like, polynomial, slope_of
from didax.primitives.elementwise import (
    abs_,
    add,
    div,
    eq,
    exp,
    floor,
    ge,
    gt,
    le,
    log,
    lt,
    min_,
    mul,
    neg,
    or_,
    rsqrt,
    sign,
    sqrt,
    square,
    sub,
)
from didax.primitives.elementwise.vectorized import exponential2, logarithm2
from didax.primitives.narrow import by_size, is_single
from didax.primitives.select import where

_ERFCX = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189,
    -0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07,
    1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11,
    2.86879501093067e-11, 1.9455868545777347e-13, -9.65469674843344e-13, 3.25254814814874e-14,
    3.3478119482868056e-14, -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624043e-17,
    5.068148904796111e-17,
)  # fmt: skip
_ERFINV_MIDDLE = (
    0.01592631257407906, 0.15024335081070167, 0.024700362870782033, 0.0051007565297926365,
    0.0011738327842938947, 0.000287724074274452, 7.349258028209829e-05, 1.9324257354745404e-05,
    5.19153325349258e-06, 1.418010364547902e-06, 3.9243804981509435e-07, 1.0977471227800348e-07,
    3.0979760261767776e-08, 8.808278725110801e-09, 2.5203856511973196e-09, 7.251510350168959e-10,
    2.0963811577852548e-10, 6.086141292179765e-11, 1.7735197607188263e-11, 5.18534761661299e-12,
    1.5206168914474855e-12, 4.4713179691242226e-13, 1.3180028188296996e-13, 3.893747737389281e-14,
    1.152676935163773e-14, 3.4187188109502562e-15, 1.015713646980249e-15, 3.0225581289170427e-16,
    9.007888530970495e-17, 2.688259004004226e-17, 8.033010949618438e-18, 2.403300721392006e-18,
)  # fmt: skip
_ERFINV_TAIL = (
    -0.08888347591433532, 0.11989500199270622, -0.04121403424713775, 0.00908862074906977,
    -0.001677691157289318, 0.00021806548564546954, -9.77404821132468e-06, -7.008924117233368e-06,
    2.9648835102365304e-06, -8.66794693139131e-07, 1.7407108577281686e-07, -3.0305801602273506e-08,
    1.0302313986215377e-09, 5.46263454613697e-10, -5.191616404905866e-10, 9.901910302660821e-11,
    -4.309140568698281e-11, 8.988733631142969e-13, -2.207657084477585e-12, -7.452014895051913e-13,
    -1.7638609730440232e-13, -1.2004685863058976e-13, -3.103678449937958e-14, -1.577938159338184e-14,
    -5.60187070229273e-15, -2.268410166553268e-15, -9.19782668311645e-16, -3.58240373349294e-16,
    -1.4727629235356e-16, -5.86234058418039e-17, -2.3903749583620686e-17, -9.700883064161836e-18,
    -3.954873995040335e-18, -1.6200202542130898e-18,
)  # fmt: skip
_I0E_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.670793853940612e-07,
    6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12, -4.856446783111929e-13,
    7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15, -2.431279846547955e-16,
    3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
_I1E_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05,
    3.4702513081376785e-06, -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08,
    9.381537386495773e-09, -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14,
    7.600684294735408e-15, -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,
    2.7779141127610464e-18,
)  # fmt: skip
_I0E_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18,
    -7.233180487874754e-18,
)  # fmt: skip
_I1E_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18,
)  # fmt: skip
# x (1 - I1(x) / I0(x)), for 2 <= x <= 8 and for x > 8
_I1_SHORT_OF_I0 = (
    0.5626457380778298, 0.04568157665531851, -0.001329098221489484, -0.0027098895684521387,
    -7.472076100961696e-06, 0.00020726581284609413, -3.118318350503382e-05, -1.106530582623627e-05,
    5.692910917475836e-06, -7.402620415811989e-07, -2.7263844118081474e-07, 1.6986387438825535e-07,
    -4.1058340398595254e-08, 7.178043387332724e-10, 3.698412754821553e-09, -1.7427844473968614e-09,
    4.42760018530295e-10, -3.574477028360391e-11, -2.7755239662319265e-11, 1.7583936534597756e-11,
    -6.074226048213763e-12, 1.3046354715599344e-12, -4.659633912369085e-14, -1.1249254047331271e-13,
    6.512114349312269e-14, -2.3300615722841706e-14, 5.807645442487409e-15, -7.21849145466688e-16,
    -2.1622400994251828e-16, 1.969223021749693e-16, -8.736903389721036e-17, 2.8320334574217865e-17,
    -6.7624884046797515e-18,
)  # fmt: skip
_I1_SHORT_OF_I0_FAR = (
    0.5087044228290216, 0.009033638646327165, 0.0003509928487727511, 2.4000438429103217e-05, 2.5485427408775527e-06,
    3.815519410045759e-07, 6.38753641011317e-08, 6.6051001834962115e-09, -1.8998605836339407e-09,
    -1.3857621284106344e-09, -3.5482727891548183e-10, 1.7935629684276216e-11, 4.3893201231448725e-11,
    9.909087325171574e-12, -2.9337562818440347e-12, -1.868545673432971e-12, 5.5121282669304276e-14,
    2.664203181431419e-13, 2.5122977643761473e-14, -3.7098265218993585e-14, -6.609888009612634e-15,
    5.532217388870571e-15, 1.2354019503152016e-15, -9.160955002561895e-16, -2.000192459517415e-16,
    1.6754366178747272e-16, 2.730460268177031e-17, -3.2694103140690045e-17, -2.258234342395762e-18,
    6.490308118909792e-18,
)  # fmt: skip
_E1_FAR = (
    0.8121695479291701, 0.19877948214947017, -0.013589634127867593, 0.0029498916375537004,
    -0.0003907636762266594, 9.295514456059183e-05, -1.4795052892102334e-05, 3.8005682780246923e-06,
    -6.424367330990174e-07, 1.794013017306885e-07, -2.997531758156375e-08, 9.367192724736652e-09,
    -1.430990110218307e-09, 5.340360951053552e-10, -6.525881950383355e-11, 3.344891116610805e-11,
    -2.330605548854824e-12, 2.350337637930449e-12, 1.921631896960905e-14, 1.9034983784207435e-13,
    1.9976803734972913e-14, 1.8061305202331017e-14, 3.647060613875213e-15, 1.992148815013435e-15,
    5.5754607643578855e-16, 2.4856648220534434e-16, 8.263153846691172e-17, 3.402500091202205e-17,
    1.2407903097726667e-17,
)  # fmt: skip
_EI_FAR = (
    1.1222814962930343, 0.13872128234888836, 0.018195488408478764, 0.0010967452729073969,
    -0.0010717034955581603, -0.00043060226504928117, 3.743330582066692e-05, 6.315563645820133e-05,
    -1.1525549659767258e-06, -1.0193973053419956e-05, 6.22901774595981e-07, 1.813509285388336e-06,
    -3.615547154290118e-07, -3.0460701367728775e-07, 1.4028728645453564e-07, 3.251784999063871e-08,
    -4.0811603367838706e-08, 4.870115156528881e-09, 8.212703691918299e-09, -4.163563967069981e-09,
    -4.826721000730851e-10, 1.279079451999888e-09, -4.224136108517417e-10, -1.5601148239344158e-10,
    1.9030842186191243e-10, -4.94691182163879e-11, -2.9314540343403873e-11, 2.982508366877505e-11,
    -7.530070705159506e-12, -4.737310645177899e-12, 5.0115910778826645e-12, -1.4916620019909988e-12,
    -6.653061494143791e-13, 8.821390157912002e-13, -3.430432410777213e-13, -6.491344513945722e-14,
    1.5476029960256282e-13, -8.17828696883331e-14, 3.815218838898784e-15, 2.4949380693404073e-14,
    -1.8778183673325693e-14, 4.78112363471346e-15, 3.0601106806893664e-15, -3.908650578278767e-15,
    1.8166580262651745e-15, 2.614108992737416e-17, -6.70342036159187e-16, 5.053837949528338e-16,
    -1.4885315639611596e-16, -6.814031222502556e-17, 1.0891148662139524e-16, -6.196967612377105e-17,
    9.449408002310385e-18, 1.557938549972067e-17, -1.6411250317364802e-17,
)  # fmt: skip


@functools.cache
def _powers(coefficients: tuple[float, ...]) -> list[float] | None:
    """The same polynomial in powers; None where their coefficients would cancel."""
    powers = np.polynomial.chebyshev.cheb2poly(coefficients)
    return powers.tolist() if np.abs(powers).sum() <= 2 * np.abs(coefficients).sum() else None


def chebyshev(y: Any, coefficients: Sequence[float], eps: float = 0.0) -> Any:
    """c0 T0(y) + c1 T1(y) + ... for |y| <= 1, with as many terms as the dtype has digits for, or as `eps` says.

    The series is computed as a polynomial in powers of y, which takes a third of the operations. Where the coefficients
    of the powers are so much larger than those of the series that their terms would cancel, Clenshaw's recurrence
    computes it.
    """
    least = max(map(abs, coefficients)) * (eps or float(dtypes.finfo(aval_of(y).dtype).eps)) / 64
    coefficients = coefficients[: 1 + max(k for k, c in enumerate(coefficients) if abs(c) >= least)]
    if (powers := _powers(tuple(coefficients))) is not None:
        return polynomial(y, powers)
    twice = mul(y, 2)
    b, after = like(coefficients[-1], y), like(0, y)
    for c in coefficients[-2:0:-1]:
        b, after = add(sub(mul(twice, b), after), c), b
    return add(sub(mul(y, b), after), coefficients[0])


# --- Bessel functions ---------------------------------------------------------------------------------------


def _bessel_far(x: Any, table: Sequence[float]) -> Any:
    """A Bessel function for x > 8, scaled by its exponential: a Chebyshev series in 16 / x - 1 over the root of x."""
    return mul(chebyshev(sub(div(16, x), 1), table), rsqrt(x))


def _bessel_i0e(x: Any) -> Any:
    x = abs_(x)
    near = le(x, 8)
    small = where(eq(x, 0), like(1, x), chebyshev(sub(mul(x, 0.25), 1), _I0E_NEAR))
    return where(near, small, _bessel_far(where(near, like(8, x), x), _I0E_FAR))


def _bessel_i1e(x: Any) -> Any:
    size = abs_(x)
    near = le(size, 8)
    small = mul(chebyshev(sub(mul(size, 0.25), 1), _I1E_NEAR), size)
    return mul(where(near, small, _bessel_far(where(near, like(8, x), size), _I1E_FAR)), sign(x))


_I1_OVER_X = [0.5 ** (2 * k + 1) / (math.factorial(k) * math.factorial(k + 1)) for k in range(9)]


def _i1_over_x(y: Any, x: Any, factor: Any = 1.0) -> Any:
    """y / x for y = factor I1(x), near 0 by a series in x^2, which keeps the digits of its derivatives."""
    near = lt(abs_(x), 1)
    series = polynomial(square(where(near, x, like(0, x))), _I1_OVER_X)
    return where(near, mul(series, factor), div(y, where(near, like(1, x), x)))


def _i1e_short_of_i0e(x: Any) -> Any:
    """exp(-|x|) (I0(x) - I1(|x|)), which is i0e(x) / (2 |x|) far from 0, where the two are nearly the same."""
    size = abs_(x)
    near, far = lt(size, 2), gt(size, 8)
    two, eight = like(2, x), like(8, x)
    middle = chebyshev(div(sub(div(16, where(near, two, where(far, eight, size))), 5), 3), _I1_SHORT_OF_I0)
    short = where(far, chebyshev(sub(div(16, where(far, size, eight)), 1), _I1_SHORT_OF_I0_FAR), middle)
    y = bessel_i0e(x)  # not of |x|: the series of jet find the functions of x that they are computed for
    difference = sub(y, mul(sign(x), bessel_i1e(x)))
    return where(near, difference, mul(y, div(short, where(near, two, size))))


bessel_i0e = composed("bessel_i0e", _bessel_i0e,
                    lambda t, y, x: mul(t, neg(mul(sign(x), _i1e_short_of_i0e(x)))))  # fmt: skip
bessel_i1e = composed("bessel_i1e", _bessel_i1e,
                    lambda t, y, x: mul(t, sub(_i1e_short_of_i0e(x), _i1_over_x(y, x, exp(neg(abs_(x)))))))  # fmt: skip
bessel_i0 = composed("bessel_i0", lambda x: _times_exp(x, _bessel_i0e),
                   lambda t, y, x: mul(t, bessel_i1(x)))  # fmt: skip
bessel_i1 = composed("bessel_i1", lambda x: _times_exp(x, _bessel_i1e),
                   lambda t, y, x: mul(t, bessel_i1_slope(x)))  # fmt: skip


def _times_exp(x: Any, f: Callable[[Any], Any]) -> Any:
    """exp(|x|) f(x), which overflows where the product does, later than exp(|x|)."""
    size = abs_(x)
    most = 0.9 * math.log(float(dtypes.finfo(aval_of(x).dtype).max))
    first = where(gt(size, most), like(most, x), size)
    return mul(mul(exp(first), f(x)), exp(sub(size, first)))


def _bessel_i1_slope(x: Any) -> Any:
    """I1'(x) = I0(x) - I1(x) / x: far from 0 one product, as a difference of two that overflow is NaN."""
    near = le(abs_(x), 8)
    inner, outer = where(near, x, like(0, x)), where(near, like(8, x), x)
    far = _times_exp(outer, lambda x: sub(bessel_i0e(x), div(bessel_i1e(x), x)))
    return where(near, sub(bessel_i0(inner), _i1_over_x(bessel_i1(inner), inner)), far)


def _bessel_i1_curve(y: Any, x: Any) -> Any:
    """The second derivative of y = I1(x), y (1 + (2 / x - I0(x) / y) / x): far from 0, where y may overflow."""
    near = le(abs_(x), 8)
    inner, outer = where(near, x, like(0, x)), where(near, like(8, x), x)
    ratio = div(bessel_i0e(outer), bessel_i1e(outer))
    far = mul(y, add(div(sub(div(2, outer), ratio), outer), 1))
    return where(near, sub(bessel_i1(inner), _i1_over_x_slope(inner)), far)


def _i1_over_x_slope(x: Any) -> Any:
    """The derivative of I1(x) / x, near 0 that of the series."""
    near = lt(abs_(x), 1)
    small, large = where(near, x, like(0, x)), where(near, like(1, x), x)
    series = polynomial(square(small), [2 * k * c for k, c in enumerate(_I1_OVER_X)][1:])
    rest = div(sub(bessel_i0(large), mul(div(bessel_i1(large), large), 2)), large)
    return where(near, mul(small, series), rest)


# An operation of its own, because a cotangent of its factors may overflow where the derivative does not.
bessel_i1_slope = composed("bessel_i1_slope", _bessel_i1_slope,
                           lambda t, y, x: mul(t, _bessel_i1_curve(bessel_i1(x), x)))  # fmt: skip


# --- Error functions ----------------------------------------------------------------------------------------


def _scaled_tail(size: Any, scale: float = 1.0, eps: float = 0.0) -> Any:
    """exp(x^2) erfc(x) at x = scale * size >= 0."""
    finite = where(eq(size, math.inf), like(1, size), size)
    y = div(sub(finite, 3.75 / scale), add(finite, 3.75 / scale))
    tail = div(chebyshev(y, _ERFCX, eps), add(mul(finite, 2 * scale), 1))
    return where(eq(size, math.inf), like(0, size), tail)


def _exp_of_square(size: Any, factor: float) -> Any:
    """exp(factor * size^2), without the error that a rounded square would have.

    The size is a number of few bits, whose square is exact, plus a rest, whose share of the exponent is small.
    """
    grain = 2.0**8 if is_single(size) else 2.0**20
    size = where(gt(size, 100), like(100, size), size)  # vanishes there, or overflows
    short = mul(floor(mul(size, grain)), 1 / grain)
    rest = mul(mul(sub(size, short), add(size, short)), factor)
    growth = polynomial(rest, [1 / math.factorial(k) for k in range(5)])
    return mul(exp(mul(square(short), factor)), growth)


def _erfcx(x: Any) -> Any:
    size = abs_(x)
    right = _scaled_tail(size)
    return where(lt(x, 0), sub(mul(_exp_of_square(size, 1.0), 2), right), right)


def normal_weight(x: Any) -> Any:
    """exp(-x^2 / 2)."""
    return _exp_of_square(abs_(x), -0.5)


def scaled_normal_tail(size: Any) -> Any:
    """The share of the normal distribution beyond `size` >= 0, over exp(-size^2 / 2)."""
    return mul(_scaled_tail(size, math.sqrt(0.5)), 0.5)


def normal_share(x: Any) -> Any:
    """The share of the normal distribution below x; around the middle by a power series (DLMF 7.6.1)."""
    size = abs_(x)
    tail = mul(scaled_normal_tail(size), _exp_of_square(size, -0.5))
    inside = where(lt(size, 0.65), x, like(0, x))
    series = [(-0.5) ** k / (math.factorial(k) * (2 * k + 1) * math.sqrt(2 * math.pi)) for k in range(14)]
    middle = add(mul(inside, polynomial(square(inside), series)), 0.5)
    return where(lt(size, 0.65), middle, where(lt(x, 0), tail, sub(1, tail)))


class _Tail(NamedTuple):
    """Of float64 arrays that hold float32 numbers: the share beyond |x|, and that over exp(-x^2 / 2), and the rest."""

    left: Any
    scaled: Any
    weight: Any
    share: Any
    rest: Any


def _tail_in_double(x: Any) -> _Tail:
    size = abs_(x)
    scaled = mul(_scaled_tail(size, math.sqrt(0.5), 2.0**-24), 0.5)
    weight = exponential2(mul(square(x), -0.5 / math.log(2)), 1000.0)
    share = mul(scaled, weight)
    return _Tail(lt(x, 0), scaled, weight, share, sub(1, share))


def _ndtr_in_double(x: Any) -> Any:
    tail = _tail_in_double(x)
    return where(tail.left, tail.share, tail.rest)


def _log_ndtr_in_double(x: Any) -> Any:
    tail = _tail_in_double(x)
    vanishes = eq(x, -math.inf)
    scaled = where(vanishes, like(1, x), tail.scaled)
    base = where(tail.left, scaled, tail.rest)
    log = logarithm2(base, where(tail.left, sub(scaled, 1), neg(tail.share)))
    less = where(tail.left, mul(square(x), 0.5), like(0, x))
    return neg(sub(less, mul(log, math.log(2))))  # -0.0 at infinity


def _log_ndtr_slope_in_double(x: Any) -> Any:
    """Density over distribution function, whose common factor is left out in the left tail."""
    tail = _tail_in_double(x)
    above = where(tail.left, like(1, x), tail.weight)
    return mul(mul(above, 1 / math.sqrt(2 * math.pi)), div(1, where(tail.left, tail.scaled, tail.rest)))


def _log_ndtr(x: Any) -> Any:
    """For x < 0 the logarithm of the tail, otherwise log(1 - tail), corrected by the rounding error of 1 - tail."""
    size = abs_(x)
    scaled = scaled_normal_tail(size)
    tail = mul(scaled, _exp_of_square(size, -0.5))
    left = lt(x, 0)
    rest = sub(1, tail)
    u = where(left, where(eq(size, math.inf), like(1, x), scaled), rest)
    less = where(left, mul(mul(size, 0.5), size), div(sub(tail, sub(1, rest)), rest))
    return neg(sub(less, log(u)))  # -0.0 at infinity


def _log_ndtr_slope(x: Any) -> Any:
    """Density over distribution function: -x far to the left, without overflow."""
    right = gt(x, 0)
    left = where(right, like(0, x), x)
    tail = div(math.sqrt(2 / math.pi), erfcx(mul(left, -math.sqrt(0.5))))
    body = where(right, x, like(0, x))
    return where(right, div(normal_density(body), ndtr(body)), tail)


def _inverse(x: Any, q: Any) -> Any:
    """The inverse of erf at x, whose distance to 1 or -1 is q, by polynomials in x^2, or in r = sqrt(-log(q)).

    The polynomials give the relative distance of the result to |x| or r. It is smaller than 1, so their rounding errors
    are smaller than those of the result.
    """
    middle = gt(q, 0.15)
    inner = where(middle, abs_(x), like(0, x))
    near = add(inner, mul(inner, chebyshev(sub(mul(square(inner), 2 / 0.85**2), 1), _ERFINV_MIDDLE)))
    vanishes = eq(q, 0)
    r = sqrt(neg(log(where(or_(middle, vanishes), like(0.15, q), q))))
    # This is linear in (r - 3) / (r + 3), and -1 for q = 0.15, 1 for r = 27.4: no number of float64 is beyond that.
    y = sub(1.3364270306191951, div(10.227381730823531, add(r, 3)))
    far = where(vanishes, like(math.inf, q), add(r, mul(r, chebyshev(y, _ERFINV_TAIL))))
    return mul(sign(x), where(middle, near, far))


def _erfinv(x: Any) -> Any:
    q = sub(1, abs_(x))
    return where(ge(q, 0), _inverse(x, where(ge(q, 0), q, like(1, q))), like(math.nan, x))


def _ndtri(p: Any) -> Any:
    q = min_(p, sub(1, p))
    value = mul(_inverse(sub(mul(p, 2), 1), mul(where(ge(q, 0), q, like(0.5, q)), 2)), math.sqrt(2))
    return where(ge(q, 0), value, like(math.nan, p))


def _erfcx_slope(x: Any, y: Any) -> Any:
    """2 x y - 2 / sqrt(pi) for y = erfcx(x); for large x, where that would cancel, by its asymptotic series."""
    large = gt(x, 6 if is_single(x) else 7)
    inverse = div(1, square(where(large, x, like(10, x))))
    terms = [0, *[math.prod(range(1, 2 * k, 2)) / (-2) ** k for k in range(1, 25)]]
    near = sub(mul(mul(where(large, like(1, x), x), 2), y), 2 / math.sqrt(math.pi))
    return where(large, mul(polynomial(inverse, terms), 2 / math.sqrt(math.pi)), near)


erfcx = composed("erfcx", _erfcx, lambda t, y, x: mul(t, _erfcx_slope(x, y)))
normal_density = composed("normal_density", lambda x: mul(normal_weight(x), 1 / math.sqrt(2 * math.pi)),
                          lambda t, y, x: neg(mul(t, mul(x, y))))  # fmt: skip
ndtr = composed("ndtr", by_size(normal_share, _ndtr_in_double), lambda t, y, x: mul(t, normal_density(x)))
log_ndtr_slope = composed("log_ndtr_slope", by_size(_log_ndtr_slope, _log_ndtr_slope_in_double),
                          lambda t, y, x: mul(t, slope_of(_log_ndtr_slope, 0)(x)))  # fmt: skip
log_ndtr = composed(
    "log_ndtr", by_size(_log_ndtr, _log_ndtr_in_double), lambda t, y, x: mul(t, log_ndtr_slope(x))
)
erfinv = composed("erfinv", _erfinv, lambda t, y, x: mul(t, mul(exp(square(y)), math.sqrt(math.pi) / 2)))
ndtri = composed("ndtri", _ndtri, lambda t, x, p: div(t, normal_density(x)))

# --- Exponential integrals ----------------------------------------------------------------------------------

_EIN = [1 / (k * math.factorial(k)) for k in range(1, 46)]  # of the entire part of Ei, for |x| < 6


def _entire(x: Any) -> Any:
    """Ei(x) without its singular part, euler_gamma + log|x|."""
    return mul(polynomial(x, _EIN), x)


def _singular(x: Any) -> Any:
    return add(log(abs_(x)), np.euler_gamma)


def _exp1_far(x: Any) -> Any:
    """E1 for x >= 1."""
    finite = where(lt(x, math.inf), x, like(1, x))
    scaled = chebyshev(div(sub(finite, 4), add(finite, 2)), _E1_FAR)
    return where(eq(x, math.inf), like(0, x), where(eq(x, x), mul(div(scaled, finite), exp(neg(finite))), x))


def _exp1(x: Any) -> Any:
    near = lt(x, 1)
    small = where(near, x, like(1, x))
    small = sub(neg(_singular(small)), _entire(neg(small)))
    inside = where(near, small, _exp1_far(where(near, like(1, x), x)))
    return where(lt(x, 0), like(math.nan, x), inside)


def _expi(x: Any) -> Any:
    left, near = lt(x, -1), lt(x, 6)
    middle = where(left, like(1, x), where(near, x, like(1, x)))
    far = where(near, like(6, x), x)
    right = _times_exp(far, lambda far: div(chebyshev(sub(div(12, far), 1), _EI_FAR), far))
    right = where(gt(far, 1e5), like(math.inf, x), right)
    inside = where(near, add(_singular(middle), _entire(middle)), right)
    return where(left, neg(_exp1_far(where(left, neg(x), like(1, x)))), inside)


exp1 = composed("exp1", _exp1, lambda t, y, x: neg(mul(t, div(exp(neg(x)), x))))
expi = composed("expi", _expi, lambda t, y, x: mul(t, exp_over_x(x)))


def _exp_over_x(x: Any) -> Any:
    """exp(x) / x, which overflows later than exp(x)."""
    root = exp(mul(x, 0.5))
    return where(eq(x, math.inf), x, mul(div(root, x), root))


exp_over_x = composed("exp_over_x", _exp_over_x, lambda t, y, x: mul(t, mul(y, sub(1, div(1, x)))))
