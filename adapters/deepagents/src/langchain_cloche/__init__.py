"""Runs the commands and files of deepagents in sandboxes of Cloche."""

from langchain_cloche.sandbox import ClocheSandbox

__all__ = ["ClocheSandbox"]
