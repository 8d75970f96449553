# SPDX-License-Identifier: Apache-2.0
"""Queue dynamics: distributions, standing queue, oscillation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

STANDING_WINDOW_S = 0.1


def percentile(values: npt.ArrayLike, percent: float) -> float | None:
    """Smallest of `values` (any unit) that at least `percent` % of them do not exceed; None without values.

    Source: nearest-rank definition (RFC 2330, section 11.3, empirical distribution function).
    """
    array = np.asarray(values, dtype=np.float64)
    if not len(array):
        return None
    return float(np.percentile(array, percent, method="inverted_cdf"))


def cdf(values: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Distinct values (any unit), ascending, and the fraction (0..1] of samples not above each.

    Source: RFC 2330, section 11.3.
    """
    distinct, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    return distinct, np.cumsum(counts) / max(1, counts.sum())


def standing_queue(
    depth_min: npt.ArrayLike, depth_begin: npt.ArrayLike, interval_s: float, window_s: float = STANDING_WINDOW_S
) -> float | None:
    """Queue that does not go away: mean over all windows of the smallest depth in each, in the unit of the depths.

    A window in which the queue was empty for a moment counts as 0, one in which nothing arrived or left as the depth
    with which it began. None without intervals. Divide by the BDP to have it in BDP.

    Args:
        depth_min: smallest depth seen in each interval, shape (n,); NaN where nothing arrived or left.
        depth_begin: depth at the beginning of each interval, shape (n,).
        interval_s: length of the intervals in seconds.
        window_s: length of the windows in seconds; choose at least an RTT. The last one may be shorter,
            and has less weight.

    Source: K. Nichols, V. Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012: a standing queue is what remains
    in the minimum over an interval; their interval is 100 ms.
    """
    # Between two events the depth is what it was at the earlier one, so an interval is never below both.
    least = np.fmin(np.asarray(depth_min, dtype=np.float64), np.asarray(depth_begin, dtype=np.float64))
    if not len(least):
        return None
    begins = np.arange(0, len(least), max(1, round(window_s / interval_s)))
    return float(np.average(np.minimum.reduceat(least, begins), weights=np.diff(begins, append=len(least))))


def in_bdp(size_bytes: float, rate_bps: float, rtt_s: float) -> float:
    """A number of bytes in bandwidth-delay products of a path of `rate_bps` and `rtt_s` without queue.

    Source: RFC 6349 (bandwidth-delay product).
    """
    if not (rate_bps > 0 and rtt_s > 0):
        raise ValueError("rate and RTT must be positive")
    return size_bytes * 8 / (rate_bps * rtt_s)


@dataclass(frozen=True)
class Oscillation:
    """Period in seconds, amplitude (half of peak to trough, in the series' unit), and the autocorrelation (0..1) at
    that period: near 1 for a clean oscillation."""

    period_s: float
    amplitude: float
    correlation: float


def oscillation(values: npt.ArrayLike, interval_s: float, least_correlation: float = 0.2) -> Oscillation | None:
    """Period and amplitude of a series sampled every `interval_s` seconds; None if it does not oscillate.

    The period is the lag of the highest local maximum of the autocorrelation after its first zero crossing, refined by
    a parabola; lags up to half of the series are tried, and the shortest lag within 10 % of the highest wins, so that a
    multiple of the period is not taken for it. The amplitude is the mean over whole periods of half the difference of
    their largest and smallest value. NaN are bridged linearly.
    Source: G. Box, G. Jenkins, "Time Series Analysis", ch. 2 (autocorrelation by the periodogram's inverse transform).
    """
    x = _bridged(values)
    if x is None or len(x) < 8:
        return None
    centred = x - x.mean()
    if not np.square(centred).sum() > 0:
        return None
    size = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    raw = np.fft.irfft(spectrum * np.conj(spectrum), size)[: len(x) // 2]
    correlation = raw / raw[0] * (len(x) / (len(x) - np.arange(len(raw))))
    below = np.flatnonzero(correlation < 0)
    if not len(below):
        return None
    lags = np.arange(max(1, below[0]), len(correlation) - 1)
    peaks = lags[(correlation[lags] >= correlation[lags - 1]) & (correlation[lags] > correlation[lags + 1])]
    if not len(peaks) or correlation[peaks].max() < least_correlation:
        return None
    best = int(peaks[correlation[peaks] >= 0.9 * correlation[peaks].max()][0])
    left, top, right = correlation[best - 1 : best + 2]
    curve = left - 2 * top + right
    lag = best + (0.5 * (left - right) / curve if curve < 0 else 0.0)
    whole = len(x) // best * best
    cycles = x[:whole].reshape(-1, best)
    amplitude = float((cycles.max(axis=1) - cycles.min(axis=1)).mean() / 2)
    return Oscillation(float(lag * interval_s), amplitude, float(min(1.0, top)))


def dominant_frequency(values: npt.ArrayLike, interval_s: float) -> float | None:
    """Frequency (Hz) with the most power in a series sampled every `interval_s` seconds, mean removed, Hann window.

    None for a constant or very short series. A check on oscillation().
    Source: P. Welch, "The use of fast Fourier transform for the estimation of power spectra", 1967 (one segment).
    """
    x = _bridged(values)
    if x is None or len(x) < 8 or not np.ptp(x) > 0:
        return None
    power = np.square(np.abs(np.fft.rfft((x - x.mean()) * np.hanning(len(x)), 8 * len(x))))
    return float(np.fft.rfftfreq(8 * len(x), interval_s)[1 + int(np.argmax(power[1:]))])


def _bridged(values: npt.ArrayLike) -> FloatArray | None:
    x = np.asarray(values, dtype=np.float64)
    known = np.isfinite(x)
    if not known.any():
        return None
    position = np.arange(len(x))
    return np.asarray(np.interp(position, position[known], x[known]), dtype=np.float64)
