# SPDX-License-Identifier: Apache-2.0
"""A link of several, seen as that of an experiment with this link alone: for what shows one link."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from narrows_formats.summary import FlowSummary, LinkSummary, Summary

from narrows_analysis.records.run_directory import Run


def data_only(view: Run) -> Run:
    """A run at a link, with those flows only whose data cross it."""
    return replace(view, flows=view.flows[: view.data_flows])


def series_at(frame: pd.DataFrame, data: Run) -> pd.DataFrame:
    """A series' rows of a link; flows are numbered by their position among those whose data cross it, -1 others."""
    own = frame[frame["link"] == data.bottleneck.name]
    if "flow" not in own:
        return own
    positions = {flow.number: position for position, flow in enumerate(data.flows)} | {-1: -1}
    own = own[own["flow"].isin(positions)]
    return own.assign(flow=own["flow"].map(positions))


def summary_at(summary: Summary, data: Run) -> Summary:
    """The summary as that of an experiment with a link alone."""
    section: LinkSummary = next(link for link in summary["links"] if link["name"] == data.bottleneck.name)
    by_name: dict[str, FlowSummary] = {flow["name"]: flow for flow in summary["flows"]}
    return {
        **summary,
        "links": [section],
        "bottleneck": section,
        "fairness": section["fairness"],
        "dynamics": section["dynamics"],
        "flows": [by_name[name] for name in data.flow_names],
    }
