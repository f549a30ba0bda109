"""Runs the tools of Inspect evaluations in sandboxes of Cloche: `sandbox="cloche"`."""

from inspect_cloche.config import ClocheConfig
from inspect_cloche.environment import ClocheSandboxEnvironment

__all__ = ["ClocheConfig", "ClocheSandboxEnvironment"]
