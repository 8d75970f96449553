# SPDX-License-Identifier: Apache-2.0
"""Metrics against values computed by hand, and against published ones where there are any."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from narrows_analysis.metrics import completion, fairness, loss, queue, rtt, sampling, synchronization, throughput


class TestFairness:
    @pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 4), (3, 10), (10, 100)])
    def test_jain_published_property(self, k: int, n: int) -> None:
        """Jain et al. 1984: if k of n users share equally and the others get nothing, the index is k/n."""
        assert fairness.jain_index([7.0] * k + [0.0] * (n - k)) == pytest.approx(k / n)

    def test_jain_by_hand(self) -> None:
        assert fairness.jain_index([1, 3, 5]) == pytest.approx(81 / 105)

    @given(st.lists(st.floats(1, 1e12), min_size=1, max_size=50), st.floats(1e-3, 1e3))
    def test_jain_is_bounded_and_scale_free(self, values: list[float], factor: float) -> None:
        index = fairness.jain_index(values)
        assert index is not None and 1 / len(values) - 1e-9 <= index <= 1 + 1e-9
        assert fairness.jain_index(np.array(values) * factor) == pytest.approx(index)

    def test_jain_without_meaning(self) -> None:
        assert fairness.jain_index([]) is None and fairness.jain_index([0, 0]) is None
        with pytest.raises(ValueError, match="not negative"):
            fairness.jain_index([1, -1])
        with pytest.raises(ValueError, match="finite"):
            fairness.jain_index([1, float("nan")])

    def test_jain_series_counts_active_flows_only(self) -> None:
        nan = np.nan
        series = fairness.jain_series([[2.0, 2.0, 0.0, nan], [nan, 1.0, 0.0, nan], [nan, nan, 0.0, 3.0]])
        np.testing.assert_allclose(series, [nan, 9 / 10, nan, nan])

    def test_shares_and_difference(self) -> None:
        assert fairness.shares([1, 3]).tolist() == [0.25, 0.75]
        assert fairness.throughput_difference(80.0, 20.0) == pytest.approx(0.75)
        assert fairness.throughput_difference(20.0, 80.0) == pytest.approx(-0.75)
        assert fairness.throughput_difference(0.0, 0.0) is None

    def test_convergence_begins_with_the_last_unfair_interval(self) -> None:
        """Unfair for 30 intervals, then 12.5 % off the fair share for good."""
        first = np.concatenate((np.full(30, 90.0), np.full(100, 45.0)))
        rates = [first, np.concatenate((np.full(30, 10.0), np.full(100, 35.0)))]
        assert fairness.convergence_time(rates, 0.1, smooth_s=0.1) == pytest.approx(3.0)
        smoothed = fairness.convergence_time(rates, 0.1, smooth_s=1.0)
        assert smoothed is not None and 3.5 < smoothed < 4.0
        assert fairness.convergence_time(rates, 0.1, tolerance=0.1) is None
        assert fairness.convergence_time([first[:70], rates[1][:70]], 0.1, smooth_s=0.1) is None
        assert fairness.convergence_time([first], 0.1) is None

    def test_harm_is_what_is_taken_away(self) -> None:
        assert fairness.harm(10.0, 4.0, more_is_better=True) == pytest.approx(0.6)
        assert fairness.harm(20e-3, 50e-3, more_is_better=False) == pytest.approx(0.6)
        assert fairness.harm(10.0, 12.0, more_is_better=True) == 0.0
        assert fairness.harm(0.0, 1.0, more_is_better=True) is None


class TestThroughput:
    def test_a_mean_rate_counts_its_interval_half_open(self) -> None:
        assert throughput.mean_rate([0.0, 0.5, 1.0], [100, 200, 400], 0.0, 1.0) == 2400
        with pytest.raises(ValueError, match="empty"):
            throughput.mean_rate([0.0], [1], 1.0, 1.0)

    def test_rate_series_in_any_interval(self) -> None:
        starts, rates = throughput.rate_series([0.0, 0.3, 0.4, 0.69, 2.0], [1, 2, 4, 8, 16], 0.3, 0.1, 1.0)
        np.testing.assert_allclose(starts, [0.1, 0.4, 0.7])
        np.testing.assert_allclose(rates, np.array([2, 12, 0]) * 8 / 0.3)

    def test_groups_and_utilization(self) -> None:
        groups = throughput.group_rates(np.array([[1, 2], [3, np.nan], [5, 6]]), ["a", "b", "a"])
        assert groups["a"].tolist() == [6, 8] and groups["b"].tolist() == [3, 0]
        assert throughput.utilization(12_500_000, 1e9, 0.2) == pytest.approx(0.5)

    def test_goodput_limit_published(self) -> None:
        """95.6 % of L2 and 94.1 % of L1 for 1448-byte segments, as every 1 Gbit/s link shows (941 Mbit/s)."""
        assert throughput.goodput_limit(1e9) == pytest.approx(0.9564e9, rel=1e-4)
        assert throughput.goodput_limit(1e9, 1514 + 24, 66 + 24) == pytest.approx(0.9415e9, rel=1e-4)


class TestLoss:
    def test_a_loss_ratio_is_of_arrivals(self) -> None:
        assert loss.loss_ratio(3, 60) == 0.05 and loss.loss_ratio(0, 0) is None
        with pytest.raises(ValueError, match="5 drops of 4 arrivals"):
            loss.loss_ratio(5, 4)

    def test_a_sliding_window_ends_at_its_moment(self) -> None:
        time, arrivals, drops = [0.1, 0.2, 0.4, 0.8], [10, 10, 20, 40], [0, 5, 5, 0]
        result = loss.sliding_loss_ratio(time, arrivals, drops, [0.05, 0.5, 0.65, 0.75, 0.95, 2.0], window_s=0.5)
        np.testing.assert_allclose(result, [np.nan, 0.25, 10 / 30, 5 / 20, 0.0, np.nan])

    def test_runs_episodes_and_bursts(self) -> None:
        assert loss.drop_runs([0, 2, 0, 0, 1]).tolist() == [2, 1]
        assert loss.loss_episodes([1.0, 1.01, 1.3, 5.0], 0.1) == [(1.0, 1.01, 2), (1.3, 1.3, 1), (5.0, 5.0, 1)]
        assert loss.bursts([0.0, 0.001, 0.002, 0.1, 0.2], 0.01).tolist() == [3, 1, 1]
        assert loss.interleaving([1, 1, 2, 1, 1, 1]).tolist() == [2, 1, 3]
        assert loss.interleaving([]).tolist() == loss.bursts([], 1.0).tolist() == []

    def test_retransmissions_by_hand_and_across_the_wrap(self) -> None:
        sequence = np.array([4294967000, 4294967200, 104, 4294967200, 304, 304]) % (1 << 32)
        marks = loss.retransmitted(sequence, [200] * 6)
        assert marks.tolist() == [False, False, False, True, False, True]
        assert loss.retransmission_ratio(sequence, [200] * 6) == pytest.approx(2 / 6)
        assert loss.retransmission_ratio([], []) is None

    def test_retransmissions_of_a_simulated_flow(self) -> None:
        truth = synthetic.simulate(synthetic.two_flows(5.0))
        mine = truth.rows["flow"] == 1007
        marks = loss.retransmitted(truth.rows["tcp_seq"][mine], truth.rows["payload_length"][mine])
        assert marks.sum() == truth.retransmitted[1] > 0


class TestQueue:
    def test_percentile_and_cdf(self) -> None:
        assert queue.percentile([4, 1, 3, 2], 50) == 2 and queue.percentile([4, 1, 3, 2], 99) == 4
        assert queue.percentile([], 50) is None
        values, fractions = queue.cdf([2, 1, 2, 4])
        assert values.tolist() == [1, 2, 4] and fractions.tolist() == [0.25, 0.75, 1.0]

    def test_a_standing_queue_is_the_least_of_each_window(self) -> None:
        """A queue that drains to zero in each window does not stand, however deep it gets."""
        assert queue.standing_queue([0, 500, 900, 0, 700, 800], [0, 0, 500, 900, 0, 700], 0.05, 0.15) == 0
        begins = [400, 300, 500, 900, 500, 700]
        assert queue.standing_queue([300, 500, 900, 500, 700, 800], begins, 0.05, 0.15) == 400
        # An outage, in the second window of which nothing happens; the third one is short.
        standing = queue.standing_queue([300, np.nan, np.nan, np.nan, 100], [350, 300, 300, 300, 300], 0.1, 0.2)
        assert standing == pytest.approx((2 * 300 + 2 * 300 + 100) / 5)
        assert queue.standing_queue([np.nan, 200], [0, 0], 0.1, 0.1) == 0
        assert queue.standing_queue([], [], 0.1) is None
        assert queue.in_bdp(100_000, 80e6, 0.025) == pytest.approx(0.4)

    @pytest.mark.parametrize(("period", "amplitude"), [(0.5, 10.0), (1.37, 3.0), (4.0, 100.0)])
    def test_oscillation_of_a_sine(self, period: float, amplitude: float) -> None:
        time = np.arange(0, 40, 0.01)
        noise = np.random.default_rng(3).normal(0, amplitude * 0.02, len(time))
        found = queue.oscillation(50 + amplitude * np.sin(2 * np.pi * time / period) + noise, 0.01)
        assert found is not None
        assert found.period_s == pytest.approx(period, rel=0.02)
        assert found.amplitude == pytest.approx(amplitude, rel=0.1)
        assert found.correlation > 0.9

    def test_oscillation_of_a_sawtooth_and_spectrum(self) -> None:
        saw = np.tile(np.arange(200.0), 20)
        saw[77] = np.nan
        found = queue.oscillation(saw, 0.001)
        assert found is not None and found.period_s == pytest.approx(0.2, rel=0.01)
        assert found.amplitude == pytest.approx(199 / 2)
        assert queue.dominant_frequency(saw, 0.001) == pytest.approx(5.0, rel=0.02)

    def test_a_harmonic_is_not_the_period(self) -> None:
        time = np.arange(0, 30, 0.01)
        mixed = np.sin(2 * np.pi * time) + 0.8 * np.sin(2 * np.pi * time / 0.25)
        found = queue.oscillation(mixed, 0.01)
        assert found is not None and found.period_s == pytest.approx(1.0, rel=0.02)

    def test_constant_growing_and_random_series_do_not_oscillate(self) -> None:
        assert queue.oscillation(np.ones(100), 0.1) is None
        assert queue.oscillation(np.arange(100.0), 0.1) is None
        assert queue.oscillation(np.random.default_rng(1).normal(size=2000), 0.1) is None
        assert queue.dominant_frequency([1.0] * 20, 0.1) is None


class TestRtt:
    def test_timestamps_use_first_occurrences(self) -> None:
        times, samples = rtt.rtt_from_timestamps(
            [0.0, 0.001, 0.010, 0.020], [5, 5, 6, 7], [0.030, 0.031, 0.045, 0.046], [5, 5, 6, 0]
        )
        np.testing.assert_allclose(times, [0.030, 0.045])
        np.testing.assert_allclose(samples, [0.030, 0.035])

    def test_an_acknowledgement_samples_the_segment_it_ends_with(self) -> None:
        """The second acknowledgement covers two segments and samples the later one."""
        times, samples = rtt.rtt_from_sequence(
            [0.0, 0.010, 0.020], [100, 200, 300], [100] * 3, [0.050, 0.075], [200, 400]
        )
        np.testing.assert_allclose(times, [0.050, 0.075])
        np.testing.assert_allclose(samples, [0.050, 0.055])

    def test_retransmitted_segments_are_not_sampled(self) -> None:
        """Neither the retransmitted segment nor the one held back behind it is sampled."""
        _, samples = rtt.rtt_from_sequence(
            [0.0, 0.01, 0.02, 0.10], [0, 100, 200, 100], [100] * 4, [0.05, 0.06, 0.16], [100, 100, 300]
        )
        np.testing.assert_allclose(samples, [0.05])

    def test_bytes_in_flight_survive_the_wrap(self) -> None:
        big = (1 << 32) - 100
        times, open_bytes = rtt.inflight([0.0, 0.01], [big, 0], [100, 100], [0.005, 0.05], [big + 50, 100])
        np.testing.assert_allclose(times, [0.0, 0.005, 0.01, 0.05])
        assert open_bytes.tolist() == [100, 50, 150, 0]

    def test_inflight_until_the_acknowledgement_reaches_the_sender(self) -> None:
        """20 ms later: the second segment was sent before the sender knew of the first acknowledgement."""
        times, open_bytes = rtt.inflight([0.0, 0.01], [0, 100], [100, 100], [0.005, 0.05], [50, 200], 0.02)
        np.testing.assert_allclose(times, [0.0, 0.01, 0.025, 0.07])
        assert open_bytes.tolist() == [100, 200, 150, 0]

    def test_nothing_to_match(self) -> None:
        assert len(rtt.rtt_from_sequence([], [], [], [1.0], [5])[0]) == 0
        assert len(rtt.inflight([], [], [], [], [])[0]) == 0


class TestCompletion:
    def test_ideal_and_slowdown(self) -> None:
        """Ten full segments of 1514 bytes at 8 Mbit/s take 15.14 ms, after a round trip of 20 ms."""
        ideal = completion.ideal_completion_time(14_480, 8e6, 0.020)
        assert ideal == pytest.approx(0.03514)
        assert completion.ideal_completion_time(1, 8e6, 0.0) == pytest.approx(67e-6)
        assert completion.slowdown(0.07028, ideal) == pytest.approx(2.0)
        assert completion.completion_time(1.0, 3.5) == 2.5
        with pytest.raises(ValueError, match="end before"):
            completion.completion_time(2.0, 1.0)


class TestSynchronization:
    def test_loss_together_and_in_turn(self) -> None:
        together = [[1.0, 5.0], [1.01, 5.02]]
        assert synchronization.loss_synchronization(together, 0.1) == 1.0
        assert synchronization.loss_synchronization([[1.0], [5.0]], 0.1) == 0.5
        assert synchronization.loss_synchronization([[1.0, 5.0], [1.01], []], 0.1) == pytest.approx(0.5)
        assert synchronization.loss_synchronization([[], []], 0.1) is None

    def test_backoffs_of_a_sawtooth(self) -> None:
        saw = np.concatenate((np.linspace(50, 100, 10), np.linspace(50, 100, 10), np.linspace(50, 60, 3)))
        assert synchronization.backoffs(saw).tolist() == [9, 19]
        assert synchronization.backoffs([100, 95, 100, 95]).tolist() == []

    def test_rates_that_move_together_correlate(self) -> None:
        wave = np.sin(np.linspace(0, 20, 200))
        assert synchronization.rate_synchronization([wave, 2 * wave]) == pytest.approx(1.0)
        assert synchronization.rate_synchronization([wave, 5 - wave]) == pytest.approx(-1.0)
        assert synchronization.rate_synchronization([wave, np.ones(200)]) is None


class TestSampling:
    """Of many samples, as many as should are within two standard errors of the truth."""

    @staticmethod
    def drawn(values: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        rows = values[: len(values) // n * n].reshape(-1, n)
        return rows[np.arange(len(rows)), rng.integers(0, n, len(rows))]

    @pytest.mark.parametrize("n", [2, 4, 8, 64])
    def test_means_are_within_two_standard_errors(self, n: int) -> None:
        """Packets in step with the rows, of which the error is exact, and in bursts, of which it is a bound."""
        for name, values in (
            ("in step", np.tile([1042.0, 142.0], 16_384)),
            ("in bursts", np.repeat(np.tile([1042.0, 142.0], 64), 256)),
            ("ramp", np.arange(32_768.0)),
        ):
            rng, errors = np.random.default_rng(1), []
            for _ in range(400):
                sample = self.drawn(values, n, rng)
                spread = sampling.variance(float(sample.sum()), float((sample**2).sum()), len(sample))
                error = sampling.mean_error(spread, len(sample))
                assert error is not None and spread == pytest.approx(sample.var(ddof=1))
                errors.append((sample.mean() - values.mean()) / error)
            assert np.mean(np.abs(errors) <= 2) >= 0.92, name
            if name == "in step":
                # Its deviation is 1, known to 1 / sqrt(800) = 3.5 %.
                assert np.std(errors) == pytest.approx(1, abs=0.15)

    def test_what_is_before_the_first_and_behind_the_last_report(self) -> None:
        """Uniform times: the second moment of what is outside of them, of 20,000 samples, to 5 %."""
        rng = np.random.default_rng(1)
        for count in (5, 39, 200):
            times = rng.random((20_000, count))
            outside = 1 - (times.max(axis=1) - times.min(axis=1))
            assert sampling.ends_error(count) == pytest.approx(np.sqrt((outside**2).mean()), rel=0.05)

    def test_of_nothing(self) -> None:
        assert sampling.mean_error(0.0, 0) is None and sampling.variance(7.0, 49.0, 1) == 0
