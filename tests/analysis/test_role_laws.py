# SPDX-License-Identifier: Apache-2.0
"""Laws of traffic that is not the experiment's, and of probes: the first has its share, the second competes with
nothing, and the losses of both are where docs/metrics.md says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from packet_cases import CASES, Case, Window, analysed, copies, delivered, departed, dropped, together
from packet_lives import BY_LINK, LOST, NEVER, NS, Experiment, Link, Role, experiments, reported

pytestmark = [pytest.mark.needs("narrows-collector"), pytest.mark.parallel_safe]

ALL = (0, NEVER)
# Not a whole number, so that no two transmissions come at one instant.
AFTERWARDS_NS = 2 * NS + 500
ROLES: tuple[Role, ...] = ("own", "own", "probe", "other")


@st.composite
def mixed(draw: st.DrawFn) -> Experiment:
    """An experiment of which some flows are probes and others are not known to it, but for one at least. What is not
    known may be there when it is over."""
    experiment = draw(experiments().filter(reported))
    roles = draw(st.lists(st.sampled_from(ROLES), min_size=4, max_size=4).filter(lambda ones: ones[0] != "other"))
    later = draw(st.sampled_from([0, AFTERWARDS_NS]))
    shift = {flow.name: later * (role == "other") for flow, role in zip(experiment.flows, roles, strict=False)}
    flows = [
        replace(flow, role=role, start=flow.start + shift[flow.name])
        for flow, role in zip(experiment.flows, roles, strict=False)
    ]
    sent = sorted((replace(one, time=one.time + shift[one.flow]) for one in experiment.sent), key=lambda one: one.time)
    return replace(experiment, flows=tuple(flows), sent=tuple(sent))


def measured(case: Case, link: Link) -> Window | None:
    """From the first packet of the experiment's flows to the end of their last, and of the plan."""
    known = [flow for flow in case.experiment.known if link.name in flow.path]
    lives = [life for flow in known for life in case.of(flow.name, link.name)]
    if not lives:
        return None
    spans = [span for flow in known if (span := case.life(flow, link.name)) is not None]
    ends = [life.finished or life.dropped or 0 for life in lives]
    return min(life.offered for life in lives), max([*ends, *(end for _, end in spans)])


def _losses(case: Case, link: Link) -> None:
    """Of all traffic, others' too, but of probes, which have a count of their own."""
    found, lives = case.link(link.name), case.lives[link.name]
    assert found is not None
    of_probes = [life for life in lives if case.experiment.flow(life.flow).role == "probe"]
    assert found["probe_drops"] == len(dropped(of_probes, *BY_LINK))
    assert found["drops"] == len(dropped(lives, *BY_LINK))
    rest = [life for life in lives if life not in of_probes]
    lost, drops = len(dropped(rest, LOST)), len(dropped(rest, *BY_LINK))
    assert found["loss_ratio"] == (pytest.approx(drops / (len(rest) - lost)) if len(rest) > lost else None)
    assert found["total_loss_ratio"] == (pytest.approx((drops + lost) / len(rest)) if rest else None)


def _shares(case: Case, link: Link, window: Window) -> None:
    """Parts of what all delivered, others too, while those that compete were running, and in the run: in all, 1."""
    found, flows = case.link(link.name), [flow for flow in case.experiment.flows if link.name in flow.path]
    assert found is not None
    if copies(case, link, flows):
        return
    known = [flow for flow in flows if flow.role != "other"]
    compete = [flow for flow in known if flow.role == "own"] or known
    common = together(case, compete, link.name) if len(known) > 1 else None
    width = case.width_ns
    # What others had of the run is of the intervals that it touches.
    touched = window[0] // width * width, (window[1] // width + 1) * width
    run = (window, touched)
    for name, times in (("share_of_run", run), ("share", (common, common) if common else run)):
        shown_s = found["run_window_s" if times is run else "share_window_s"]
        assert shown_s == pytest.approx([end / NS for end in times[0]], abs=2e-9)
        had = {
            flow.name: delivered(case, flow, link.name, times[1] if flow.role == "other" or times is not run else ALL)
            for flow in flows
        }
        total = sum(had.values())
        shown = {one["name"]: one[name] for one in found["flows"]}
        shown["other"] = found[f"other_{name}"]
        of_others = sum(had[flow.name] for flow in flows if flow.role == "other")
        right = {flow.name: had[flow.name] for flow in known} | {"other": of_others}
        assert shown == {
            one: (pytest.approx(size / total, abs=1e-9) if total else None) for one, size in right.items()
        }, (link.name, name)  # fmt: skip


def _fairness(case: Case, link: Link) -> None:
    """Of those that compete: neither probes nor what the experiment does not know."""
    compete = [flow for flow in case.experiment.flows if link.name in flow.path and flow.role == "own"]
    found, common = case.link(link.name), together(case, compete, link.name)
    assert found is not None
    if len(compete) < 2 or common is None:
        assert found["fairness"]["jain_index"] is None and found["fairness"]["reason"]
        assert found["dynamics"]["loss_synchronization"] is None
        return
    if copies(case, link, compete):
        return
    rates = [delivered(case, flow, link.name, common) for flow in compete]
    squares = len(rates) * sum(rate**2 for rate in rates)
    assert found["fairness"]["jain_index"] == (pytest.approx(sum(rates) ** 2 / squares) if squares else None)


@pytest.mark.long
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@seed(2)
@given(mixed())
def test_others_have_their_share_and_probes_do_not_compete(experiment: Experiment) -> None:
    case: Case = analysed(experiment)
    for flow in experiment.known:
        if case.of(flow.name):
            assert case.flow(flow.name)["probe"] == (flow.role == "probe")
    for link in case.crossed:
        window = measured(case, link)
        if case.link(link.name) is None or window is None or not departed(case.lives[link.name]):
            continue
        _losses(case, link)
        _shares(case, link, window)
        _fairness(case, link)
