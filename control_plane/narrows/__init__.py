# SPDX-License-Identifier: Apache-2.0
"""Narrows: a programmable switch as the bottleneck link of a congestion-control experiment."""


def __getattr__(name: str) -> str:
    """``__version__``, looked up when it is asked for: that takes as long as importing half of the package."""
    if name != "__version__":
        raise AttributeError(f"module 'narrows' has no attribute '{name}'")
    from importlib.metadata import version

    return version("narrows")
