"""Adds kernels of Cloche to the Jupyter of this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager

from cloche.kernelspec.gateway import Gateway
from cloche.kernelspec.settings import read_settings


async def install(prefix: str | None) -> list[str]:
    """Installs a kernel spec for each kernel of the gateway, for this user or into an environment of Python.

    Returns their folders. A kernel spec has neither an address nor a key.
    """
    gateway = Gateway(read_settings())
    specs = await gateway.kernel_specs()
    return [_write(name, entry["spec"], await gateway.logo(name), prefix) for name, entry in specs.items()]


def _write(name: str, spec: dict[str, Any], logo: bytes, prefix: str | None) -> str:
    # The interpreter that has this package: that of Jupyter may be another one.
    program = [sys.executable, "-m", "cloche.kernelspec", "run", "--kernel", name, "-f", "{connection_file}"]
    content = {
        "argv": program,
        "display_name": spec["display_name"],
        "language": spec["language"],
        "interrupt_mode": "message",
    }
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.json").write_text(json.dumps(content, indent=2))
        (Path(folder) / "logo-svg.svg").write_bytes(logo)
        return KernelSpecManager().install_kernel_spec(folder, f"cloche-{name}", user=prefix is None, prefix=prefix)
