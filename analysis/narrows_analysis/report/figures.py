# SPDX-License-Identifier: Apache-2.0
"""Which figures a run's page has, and from which columns each is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from narrows_formats.columns import OF_QLOG
from narrows_formats.run_record import LinkRecord
from narrows_formats.schedules import Opportunities
from narrows_formats.units import NANOSECONDS

from narrows_analysis.colors import FlowColor
from narrows_analysis.metrics.fairness import jain_series
from narrows_analysis.metrics.loss import sliding_loss_ratio
from narrows_analysis.metrics.throughput import fair_goodput
from narrows_analysis.records.sockets import lines as socket_lines
from narrows_analysis.report.charts import Chart, ChartSeries, Reference, merge_factor, merged
from narrows_analysis.run_data import RunData
from narrows_analysis.summary.dual_queue import NAMES as DUAL_QUEUE

FloatArray = npt.NDArray[np.float64]
# From a largest value to the size of its unit and the unit's name; values with the names of their lines.
UnitOf = Callable[[float], tuple[float, str]]
References = list[tuple[float, str]]

MAX_LINES = 24
# So many different RTTs without queue are drawn; of more the shortest and the longest.
MAX_RTT_LINES = 4
# The most changes of a delay that a figure shows.
MAX_STEPS = 20_000
LOSS_WINDOW_S = 0.5
MBIT, KILOBYTE, MILLISECOND = 1e6, 1e3, 1e-3


def _rate_unit(rate_bps: float) -> tuple[float, str]:
    if rate_bps >= 2e9:
        return 1e9, "Gbit/s"
    return (MBIT, "Mbit/s") if rate_bps >= 1e6 else (1e3, "kbit/s")


def _size_unit(size_bytes: float) -> tuple[float, str]:
    if size_bytes >= 3e6:
        return 1e6, "MB"
    return (KILOBYTE, "kB") if size_bytes >= 2e3 else (1.0, "bytes")


def _delay_unit(delay_s: float) -> tuple[float, str]:
    return (MILLISECOND, "ms") if delay_s >= 5e-4 else (1e-6, "µs")


# Of a queue's quantity: its distribution in the summary, its columns over time, its units.
OF_QUEUES: dict[str, tuple[Literal["queue_delay_s", "queue_bytes"], str, UnitOf]] = {
    "delay": ("queue_delay_s", "delay_{}_s", _delay_unit),
    "depth": ("queue_bytes", "depth_{}_bytes", _size_unit),
}


def _until(link: LinkRecord) -> str:
    """To which of its bytes a packet waited, where that is not the same."""
    several = isinstance(link.schedule, Opportunities)
    return ", until the first delivery opportunity that carried some of them" if several else ""


def _sum(matrix: FloatArray) -> FloatArray:
    """The sum of rows in each column; NaN where no row has a value."""
    return np.where(np.isfinite(matrix).any(axis=0), np.nansum(matrix, axis=0), np.nan)


class RunFigures:
    """Builds the charts of one analysed run."""

    def __init__(self, data: RunData) -> None:
        """Take an analysed run, or one at a link of several."""
        self.data, self.run, self.summary = data, data.run, data.summary
        self.labels, self.colors = data.labels, data.colors
        self._line = "flow" if len(self.run.flows) <= MAX_LINES else "group"
        self.flows = data.flows[data.flows["flow"] >= 0]
        self.interval_s = float(self.summary["fairness"]["interval_s"] or 0.1)
        known = [frame for frame in (self.flows, data.queue) if len(frame)]
        ends = [frame["time_s"].iloc[-1] + frame["interval_s"].iloc[-1] for frame in known]
        self.x_range = (0.0, float(min(ends)) if ends else 1.0)
        lasts = [section["end_s"] for section in self.summary["flows"] if section["end_s"] is not None]
        if lasts:
            self.x_range = (0.0, max(lasts))
        # The interval in which the last flow ended says less than it seems to.
        self.queue = data.queue[data.queue["time_s"] + data.queue["interval_s"] <= self.x_range[1] + 1e-9]

    def _matrix(self, column: str) -> FloatArray:
        """Rows a flow, columns an interval from the origin; NaN outside a flow's life."""
        bins = round(float(self.flows["time_s"].max()) / self.interval_s) + 1 if len(self.flows) else 0
        matrix = np.full((len(self.run.flows), bins), np.nan)
        column_of = np.rint(self.flows["time_s"].to_numpy() / self.interval_s).astype(np.int64)
        matrix[self.flows["flow"].to_numpy(), column_of] = self.flows[column].to_numpy(dtype=np.float64)
        return matrix

    def _whole(self, matrix: FloatArray) -> FloatArray:
        """Rates without the intervals in which a flow began or ended: half an interval says nothing about a rate."""
        result = matrix.copy()
        starts = np.arange(matrix.shape[1]) * self.interval_s
        for row, section in enumerate(self.summary["flows"]):
            start_s, end_s = section["start_s"], section["end_s"]
            if start_s is not None and end_s is not None:
                last = max(end_s, self._planned_end(row))
                whole = (starts >= start_s - 1e-9) & (starts + self.interval_s <= last + 1e-9)
                result[row, ~whole] = np.nan
        return result

    def _ended(self, matrix: FloatArray) -> FloatArray:
        """Counts without those of an interval that the end of the run cut short."""
        whole = (np.arange(matrix.shape[1]) + 1) * self.interval_s <= self.x_range[1] + 1e-9
        return matrix[:, whole] if whole.any() else matrix

    def _planned_end(self, row: int) -> float:
        flow = self.run.flows[row]
        return -np.inf if flow.duration_s is None else min(flow.start_s + flow.duration_s, self.x_range[1])

    def _lines(self, matrix: FloatArray, scale: float, *, x0: float = 0.0, step: bool = False) -> list[ChartSeries]:
        """A line for each flow, or for each group where there are too many flows to tell apart; intervals from `x0`."""
        names, colors, rows = self.labels, self.colors, matrix
        if len(matrix) > MAX_LINES:
            groups = list(dict.fromkeys(flow.group for flow in self.run.flows))
            member = np.array([groups.index(flow.group) for flow in self.run.flows])
            rows = np.array([_sum(matrix[member == index]) for index in range(len(groups))])
            names = [f"{name} (all)" for name in groups]
            colors = [FlowColor(index % 8, 0) for index in range(len(groups))]
        factor = merge_factor(rows.shape[1], len(rows))
        series = []
        for name, color, row in zip(names, colors, rows, strict=True):
            if np.isnan(row).all():
                continue
            line = ChartSeries(
                name,
                merged(row, factor, "mean") / scale,
                f"c{color.index}",
                color.tint,
                x0=x0,
                dx=self.interval_s * factor,
                step=step,
            )
            if factor > 1:
                line.lo, line.hi = merged(row, factor, "min") / scale, merged(row, factor, "max") / scale
            series.append(line)
        return series

    def throughput(self) -> Chart:
        """Goodput of each flow over time, with the fair share."""
        rate_bps = self._rate_bps
        rates = self._matrix("goodput_bps")
        # A group has what each of its flows carried, also in an interval in which one began or ended.
        matrix = self._whole(rates) if self._line == "flow" else self._ended(rates)
        scale, unit = _rate_unit(rate_bps or float(np.nanmax(matrix, initial=1.0)))
        active = max(1, len(self.data.competing)) if len(matrix) <= MAX_LINES else 0
        references = []
        if active > 1 and rate_bps:
            fair = fair_goodput(rate_bps, self.run.bottleneck.mtu_frame_bytes, active)
            references.append(Reference(fair / scale, f"fair share of {active}"))
        return Chart(
            "goodput", f"Goodput per {self._line}",
            f"Payload bytes leaving the bottleneck for the first time, per whole interval of {self.interval_s:g} s.",
            self.x_range, f"Goodput ({unit})", "goodput", unit, [*self._lines(matrix, scale), *self._total(scale)],
            references, height=320,
        )  # fmt: skip

    @property
    def _rate_bps(self) -> float | None:
        """The link's rate; of one that varies the mean of what it offered."""
        return self.summary["bottleneck"]["rate_mean_bps"] or self.run.bottleneck.rate_bps

    def _total(self, scale: float) -> list[ChartSeries]:
        """The sum of all flows' goodput; nothing where one flow is all."""
        matrix = self._ended(self._matrix("goodput_bps"))
        if len(matrix) < 2 or not matrix.size:
            return []
        total = _sum(matrix)
        factor = merge_factor(len(total))
        mean, dx = merged(total, factor, "mean") / scale, self.interval_s * factor
        return [ChartSeries("all flows", mean, "c6", dx=dx, width=1.1)]

    def fairness(self) -> Chart | None:
        """Jain's index of each interval."""
        competing = self.data.competing
        if len(competing) < 2 or self.summary["fairness"]["jain_index"] is None:
            return None
        values = jain_series(self._whole(self._matrix("goodput_bps"))[competing])
        factor = merge_factor(len(values))
        series = ChartSeries("", merged(values, factor, "mean"), "c7", dx=self.interval_s * factor)
        if factor > 1:
            series.lo, series.hi = merged(values, factor, "min"), merged(values, factor, "max")
        n = len(competing)
        return Chart(
            "jain", "Jain's fairness index",
            f"Of the goodput of flows active in each {self.interval_s:g} s; 1 is equal, 1/{n} is one flow taking all.",
            self.x_range, "Jain's index", "Jain's index", "", [series], [], y_min=min(1.0 / n, 0.5), y_max=1.0,
            height=200, labels=False,
        )  # fmt: skip

    def _band(self, prefix: str, suffix: str, scale: float) -> ChartSeries:
        return self._band_of(self.queue, "", "c7", f"{prefix}_{{}}_{suffix}", scale)

    @staticmethod
    def _band_of(frame: pd.DataFrame, name: str, color: str, column: str, scale: float) -> ChartSeries:
        mean, low, high = (frame[column.format(figure)].to_numpy(float) for figure in ("mean", "min", "max"))
        factor = merge_factor(len(mean))
        width = float(frame["interval_s"].iloc[0]) if len(frame) else 1.0
        return ChartSeries(
            name, merged(mean, factor, "mean") / scale, color, dx=width * factor, width=1.1,
            lo=merged(low, factor, "min") / scale, hi=merged(high, factor, "max") / scale,
        )  # fmt: skip

    def depth(self) -> Chart | None:
        """Queue depth over time, with the buffer and the BDP."""
        if not self.run.profile.queue_reported:
            return None
        bottleneck = self.run.bottleneck
        sizes = [bottleneck.buffer_bytes, *(size_bytes for size_bytes, _ in bottleneck.later_buffers)]
        most = max(self.summary["bottleneck"]["queue_bytes"]["max"] or 0.0, *(size or 0.0 for size in sizes), 1.0)
        scale, unit = _size_unit(most)
        # Of what counts packets there is no line: it is at other bytes wherever packets are of other sizes.
        references, later = [], [size_bytes for size_bytes, _ in bottleneck.later_buffers if size_bytes is not None]
        if bottleneck.buffer_bytes is not None:
            name = "buffer at first" if bottleneck.later_buffers else "buffer"
            references.append(Reference(bottleneck.buffer_bytes / scale, name))
        ends = dict.fromkeys((later[0], later[-1])) if later else ()
        references += [Reference(size_bytes / scale, "buffer later") for size_bytes in ends]
        if bottleneck.bdp_bytes is not None and bottleneck.bdp_bytes != bottleneck.buffer_bytes:
            references.append(Reference(bottleneck.bdp_bytes / scale, "1 BDP", fit=False))
        if bottleneck.ecn_threshold_bytes is not None:
            references.append(Reference(bottleneck.ecn_threshold_bytes / scale, "ECN threshold", fit=False))
        width = self.queue["interval_s"].iloc[0] if len(self.queue) else 0
        return Chart(
            "depth", "Queue depth",
            f"Line: mean per {width * 1e3:g} ms; shade: smallest and largest depth that any packet saw.",
            self.x_range, f"Queue depth ({unit})", "depth", unit, [self._band("depth", "bytes", scale)], references,
            labels=False,
        )  # fmt: skip

    def link_rate(self) -> Chart | None:
        """What a link that varies offered over time, and what left it."""
        schedule = self.run.bottleneck.schedule
        if schedule is None or not len(self.queue):
            return None
        carried = self.queue["throughput_bps"].to_numpy(float)
        width_s = float(self.queue["interval_s"].iloc[0])
        every = max(1, round(self.interval_s / width_s))
        bins = len(carried) // every
        if not bins:
            return None
        begin_ns, step_ns = (
            round(float(self.queue["time_s"].iloc[0]) * NANOSECONDS),
            round(every * width_s * NANOSECONDS),
        )
        offered = [schedule.bits(begin_ns + n * step_ns, begin_ns + (n + 1) * step_ns) for n in range(bins)]
        rates = np.array([float(bits) for bits in offered]) / (step_ns / NANOSECONDS)
        measured = carried[: bins * every].reshape(bins, every).mean(axis=1)
        scale, unit = _rate_unit(float(max(rates.max(), measured.max(), 1.0)))
        x0, dx = begin_ns / NANOSECONDS, step_ns / NANOSECONDS
        series = [
            ChartSeries("offered", rates / scale, "c7", x0=x0, dx=dx, step=True),
            ChartSeries("left the queue", measured / scale, "c0", x0=x0, dx=dx, step=True),
        ]
        return Chart(
            "rate", "Rate of the link",
            f"What the link offered, and what left its queue (L2), per {dx:g} s: mean of each interval.",
            self.x_range, f"Rate ({unit})", "rate", unit, series,
        )  # fmt: skip

    def link_delay(self) -> Chart | None:
        """The one-way delay that was set, where it varies."""
        steps = self.run.bottleneck.delay_steps
        if steps is None or steps.gathers:
            return None
        begin, end = (round(max(0.0, time_s) * NANOSECONDS) for time_s in self.x_range)
        # Each change at its time: steps shorter than an interval would hide between two samples.
        times = steps.changes(begin, end)[:MAX_STEPS]
        delays = np.array([steps.at(time) / NANOSECONDS for time in times])
        series = [ChartSeries("delay", delays / MILLISECOND, "c7", x=np.array(times) / NANOSECONDS, step=True)]
        left_out = f" The first {MAX_STEPS:,} changes." if len(times) == MAX_STEPS else ""
        return Chart(
            "set-delay", "Delay of the link", f"One-way delay behind the queue that was set, without jitter.{left_out}",
            self.x_range, "Delay (ms)", "set delay", "ms", series, labels=False,
        )  # fmt: skip

    def delay(self) -> Chart | None:
        """Queue delay over time."""
        if not self.run.profile.queue_reported:
            return None
        scale, unit = _delay_unit(self.summary["bottleneck"]["queue_delay_s"]["max"] or 1.0)
        waited = f"Time that packets waited in the switch{_until(self.run.bottleneck)}"
        caption = f"{waited}: mean, shortest and longest, as above."
        return Chart(
            "delay", "Queue delay", caption,
            self.x_range, f"Queue delay ({unit})", "delay", unit, [self._band("delay", "s", scale)], labels=False,
        )  # fmt: skip

    def delay_by_queue(self) -> Chart | None:
        """Delay over time of each queue of DualPI2."""
        caption = "Time that packets waited in each of the two queues: mean, shortest and longest."
        return self._of_queues("delay-by-queue", "Delay of each queue", caption, "delay", DUAL_QUEUE)

    def low_latency_delay(self) -> Chart | None:
        """Delay over time of DualPI2's low-latency queue, too short to be seen next to that of the classic one."""
        caption = "Time that packets waited in the low-latency queue: mean, shortest and longest."
        return self._of_queues("low-latency-delay", "Delay of the low-latency queue", caption, "delay", DUAL_QUEUE[1:])

    def depth_by_queue(self) -> Chart | None:
        """Depth over time of each queue of DualPI2, where it is known."""
        caption = "What departures left behind in their own queue: mean, least and most."
        return self._of_queues("depth-by-queue", "Depth of each queue", caption, "depth", DUAL_QUEUE)

    def _of_queues(self, chart: str, title: str, caption: str, quantity: str, names: Sequence[str]) -> Chart | None:
        """A quantity of some of the queues of a link that has two; None where it has one, or nothing is known."""
        of, column, unit_of = OF_QUEUES[quantity]
        queues = [queue for queue in self.summary["bottleneck"]["queues"] if queue["name"] in names]
        scale, unit = unit_of(max((queue[of]["max"] or 0.0 for queue in queues), default=0.0))
        known = self.data.queues[self.data.queues["time_s"] + self.data.queues["interval_s"] <= self.x_range[1] + 1e-9]
        known = known[known["queue"].isin(names)]
        if known[column.format("mean")].isna().all():
            return None
        series = [
            self._band_of(frame, str(name), f"c{DUAL_QUEUE.index(str(name))}", column, scale)
            for name, frame in known.groupby("queue", sort=False)
        ]
        return Chart(chart, title, caption, self.x_range, f"{quantity.capitalize()} ({unit})", quantity, unit, series)

    def drops(self) -> Chart | None:
        """Drops of each flow over time."""
        if not self.run.profile.queue_reported:
            return None
        emulated = int(self.summary["bottleneck"]["loss_emulation_drops"] or 0)
        managed = self.run.bottleneck.queue_kind
        by = "the full queue" if managed is None else f"the queue ({managed})"
        if self.run.bottleneck.of_user:
            by = f"the program or {by}"
        if self.run.bottleneck.policer is not None:
            by = f"the policer or {by}"
        if self.run.bottleneck.ack_filter is not None:
            by = f"the ACK filter or {by}"
        caption = f"Packets that {by} dropped, per {self.interval_s:g} s, by the time they arrived."
        if emulated:
            caption += f" The {emulated:,} packets that loss emulation discarded are not among them."
        return Chart(
            "drops", f"Drops per {self._line}", caption, self.x_range, "Drops (packets)", "drops", "packets",
            self._lines(self._ended(self._matrix("drops")), 1.0, step=True),
        )  # fmt: skip

    def marks(self) -> Chart | None:
        """CE marks of each flow over time, where there are any."""
        marks = self._ended(self._matrix("ce_marks"))
        if not np.nansum(marks):
            return None
        return Chart(
            "marks", f"CE marks per {self._line}",
            f"Packets that the queue marked as having met congestion (ECN), per {self.interval_s:g} s.",
            self.x_range, "Marks (packets)", "marks", "packets", self._lines(marks, 1.0, step=True),
        )  # fmt: skip

    def loss(self, window_s: float = LOSS_WINDOW_S) -> Chart | None:
        """Loss ratio of each flow in a sliding window."""
        arrivals, drops = self._matrix("arrivals"), self._matrix("drops")
        if not np.nansum(drops) or len(arrivals) > MAX_LINES:
            return None
        # An interval counts whole, so it is drawn at its end, and the window covers exactly what the caption says.
        ends = (np.arange(arrivals.shape[1]) + 1) * self.interval_s
        window = max(window_s, self.interval_s)
        known = np.isfinite(arrivals)
        ratios = np.full(arrivals.shape, np.nan)
        for row, active in enumerate(known):
            offered, lost = (np.where(active, values[row], 0.0) for values in (arrivals, drops))
            ratio = sliding_loss_ratio(ends, offered, lost, ends + self.interval_s * 1e-6, window)
            ratios[row, active] = ratio[active]
        return Chart(
            "loss", "Loss ratio per flow", f"Those drops over packets offered, in the past {window:g} s.",
            self.x_range, "Loss (%)", "loss", "%", self._lines(ratios, 0.01, x0=self.interval_s),
        )  # fmt: skip

    def rtt(self) -> Chart | None:
        """RTT of the senders' sockets, as often as they were read."""
        rtts = list(self.run.base_rtts_s.items())
        shown = rtts if len(rtts) <= MAX_RTT_LINES else [rtts[0], rtts[-1]]
        whose = [f", {', '.join(groups)}" if len(rtts) > 1 else "" for _, groups in shown]
        references = [(rtt_s, f"RTT without queue{groups}") for (rtt_s, _), groups in zip(shown, whose, strict=True)]
        caption = "Smoothed RTT of each sender's socket"
        if len(self.data.sockets):
            return self._of_sockets("rtt_s", "rtt", "Round-trip time", "RTT", caption, _delay_unit, references)
        series = [[np.array(host.rtt_series).T] for host in self.run.host_records]
        caption += ", read once a second"
        return self._readings(series, "rtt", "Round-trip time", "RTT", caption, _delay_unit, references)

    def cwnd(self) -> Chart | None:
        """Congestion window of each flow."""
        caption, references = "Of each sender's socket", self._of_the_link(self.run.bottleneck.bdp_bytes, "1 BDP")
        return self._of_sockets(
            "cwnd_bytes", "cwnd", "Congestion window", "Congestion window", caption, _size_unit, references
        )

    def inflight(self) -> Chart | None:
        """Bytes in flight of each flow."""
        caption = "Sent by each sender's socket and not acknowledged yet"
        references = self._of_the_link(self.run.bottleneck.bdp_bytes, "1 BDP")
        return self._of_sockets(
            "inflight_bytes", "inflight", "Bytes in flight", "In flight", caption, _size_unit, references
        )

    def pacing(self) -> Chart | None:
        """Pacing rate of each sender's socket; the kernel has one of CUBIC too, which does not pace."""
        caption = "Packets are spaced at it where congestion control paces (BBR) or a rate is set"
        references = self._of_the_link(self._rate_bps, "rate of the link")
        return self._of_sockets(
            "pacing_rate_bps", "pacing", "Pacing rate", "Pacing rate", caption, _rate_unit, references
        )

    def _of_the_link(self, value: float | None, name: str) -> References:
        """A line for what flows have of the only link; none where there are several, or it is not known."""
        return [] if value is None or len(self.summary["links"]) > 1 else [(value, name)]

    def _of_sockets(
        self, column: str, name: str, title: str, y_name: str, caption: str, unit_of: UnitOf, lines: References
    ) -> Chart | None:
        """A column of hosts/sockets.parquet, lines for each flow; None if sockets were not read."""
        if not len(self.data.sockets):
            return None
        logged = (self.data.sockets["source"] == OF_QLOG).any()

        def of(number: int) -> list[FloatArray]:
            mine = self.data.sockets[self.data.sockets["flow"] == number].dropna(subset=[column])
            return [line[["time_s", column]].to_numpy(float).T for line in socket_lines(mine)]

        readings = map(of, range(len(self.run.flows)))
        return self._readings(
            readings, name, title, y_name, f"{caption} ({'TCP_INFO, qlog' if logged else 'TCP_INFO'})", unit_of, lines
        )

    def _readings(
        self, readings: Iterable[list[FloatArray]], name: str, title: str, y_name: str, caption: str, unit_of: UnitOf,
        lines: References,
    ) -> Chart | None:  # fmt: skip
        """Lines of (times, values) for each flow; None where there is none, or too many to tell apart.

        Of connections that a flow has at the same time each has a line, if there is room for them all.
        """
        if len(self.run.flows) > MAX_LINES:
            return None
        readings = [[line for line in of_flow if line.size] for of_flow in readings]
        if not any(readings):
            return None
        if sum(map(len, readings)) > MAX_LINES:
            readings = [of_flow[:1] for of_flow in readings]
            caption += "; of the connections that a flow has at the same time, one"
        scale, unit = unit_of(max(float(np.nanmax(value)) for of_flow in readings for _, value in of_flow))
        series = [
            ChartSeries(label if place == 0 else f"{label} ({place + 1})", line[1] / scale, f"c{color.index}",
                        color.tint, x=line[0], points=len(line[0]) <= 120)
            for of_flow, label, color in zip(readings, self.labels, self.colors, strict=True)
            for place, line in enumerate(of_flow)
        ]  # fmt: skip
        references = [Reference(value / scale, label, fit=name == "rtt") for value, label in lines]
        return Chart(name, title, f"{caption}.", self.x_range, f"{y_name} ({unit})", y_name, unit, series, references)

    def _cdf(self, quantity: str, title: str, x_name: str, scale: float, unit: str, caption: str) -> Chart | None:
        rows = self.data.distributions[self.data.distributions["quantity"] == quantity]
        if not len(rows):
            return None
        # A step up at each value: the fraction below it, then the fraction up to it.
        value = np.repeat(rows["value"].to_numpy(float) / scale, 2)
        fraction = np.repeat(rows["fraction"].to_numpy(float), 2)
        fraction = np.concatenate(([0.0], fraction[:-1]))
        low = float(value[0]) if value[0] > 0.5 * value[-1] else 0.0
        high = float(value[-1]) if value[-1] > low else low + 1
        return Chart(
            f"cdf-{quantity.replace('_', '-')}", title, caption, (low, high), "Fraction of packets", "fraction", "",
            [ChartSeries("", fraction, "c7", x=value)], time=False, x_label=f"{x_name} ({unit})",
            x_name=x_name.lower(), x_unit=unit, y_max=1.0, height=240, labels=False,
        )  # fmt: skip

    def delay_cdf(self) -> Chart | None:
        """Distribution of queue delay."""
        scale, unit = _delay_unit(self.summary["bottleneck"]["queue_delay_s"]["max"] or 1.0)
        return self._cdf(
            "queue_delay_s", "Distribution of queue delay", "Queue delay", scale, unit, "Over departing packets."
        )

    def depth_cdf(self) -> Chart | None:
        """Distribution of queue depth."""
        scale, unit = _size_unit(self.summary["bottleneck"]["queue_bytes"]["max"] or 1.0)
        return self._cdf(
            "queue_bytes",
            "Distribution of queue depth",
            "Queue depth",
            scale,
            unit,
            "As departing packets left it behind.",
        )


# Every figure of a run, by the name that notebooks have for it.
FIGURES: dict[str, Callable[[RunFigures], Chart | None]] = {
    "goodput": RunFigures.throughput,
    "jain": RunFigures.fairness,
    "link_rate": RunFigures.link_rate,
    "link_delay": RunFigures.link_delay,
    "queue_depth": RunFigures.depth,
    "queue_delay": RunFigures.delay,
    "depth_by_queue": RunFigures.depth_by_queue,
    "delay_by_queue": RunFigures.delay_by_queue,
    "low_latency_delay": RunFigures.low_latency_delay,
    "drops": RunFigures.drops,
    "marks": RunFigures.marks,
    "loss": RunFigures.loss,
    "delay_cdf": RunFigures.delay_cdf,
    "depth_cdf": RunFigures.depth_cdf,
    "rtt": RunFigures.rtt,
    "cwnd": RunFigures.cwnd,
    "inflight": RunFigures.inflight,
    "pacing": RunFigures.pacing,
}
# A page's rows of them: those of a link, of which some need flows, and those of the senders.
COMPETITION = (("goodput",), ("jain",))
QUEUE = (
    ("link_rate",), ("link_delay",), ("queue_depth",), ("queue_delay",), ("depth_by_queue",), ("delay_by_queue",),
    ("low_latency_delay",), ("drops",), ("marks",), ("loss",),
)  # fmt: skip
DISTRIBUTIONS = (("delay_cdf", "depth_cdf"),)
SENDERS = (("rtt",), ("cwnd",), ("inflight",), ("pacing",))
OF_FLOWS = {"goodput", "jain", "drops", "marks", "loss"}
OF_SENDERS = {name for row in SENDERS for name in row}


def rows_of(build: RunFigures, *sections: tuple[tuple[str, ...], ...]) -> list[list[Chart | None]]:
    """The charts of some of the rows above."""
    names = [row for section in sections for row in section]
    return [[FIGURES[name](build) for name in row if build.run.flows or name not in OF_FLOWS] for row in names]
