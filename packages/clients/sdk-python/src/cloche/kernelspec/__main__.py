"""Commands: `install` adds the kernels of Cloche to Jupyter; Jupyter itself calls `run`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path


def main() -> None:
    """Runs the command of the arguments."""
    arguments = _parser().parse_args()
    try:
        from cloche.kernelspec.gateway import GatewayError
        from cloche.kernelspec.install import install
        from cloche.kernelspec.process import serve
    except ImportError as error:
        sys.exit(f"{error}: install cloche[jupyter].")
    from cloche._core.errors import ClocheError

    try:
        if arguments.command == "install":
            for folder in asyncio.run(install(sys.prefix if arguments.sys_prefix else None)):
                print(f"Installed {folder}")
        elif not asyncio.run(serve(arguments.connection_file, arguments.kernel, arguments.patience)):
            sys.exit("The kernel in Cloche is lost.")
    except (ClocheError, GatewayError, ValueError) as error:
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cloche.kernelspec", description="Kernels of Jupyter in Cloche.")
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="add the kernels to Jupyter")
    install.add_argument("--sys-prefix", action="store_true", help="into this Python environment, not for this user")
    run = commands.add_parser("run", help="serve a kernel; Jupyter calls this")
    run.add_argument("-f", dest="connection_file", type=Path, required=True)
    run.add_argument("--kernel", default="python3", help="name of the kernel in the gateway")
    run.add_argument("--patience", type=float, default=60, help="seconds until a lost connection ends the kernel")
    return parser


if __name__ == "__main__":
    main()
