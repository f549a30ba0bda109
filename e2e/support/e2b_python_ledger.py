"""Prints as JSON how calls of the public methods of E2B's Python clients end. `e2b-python-ledger.test.ts` runs it."""

import asyncio
import inspect
import json
import re
import traceback
from importlib.metadata import version
from types import ModuleType
from typing import Any

import e2b
import e2b_code_interpreter
from e2b_python_calls import CALLS
from e2b_python_subject import Call, Subject, done

#: Methods whose calls reach no server, and do not work.
LOCAL = {"Sandbox.get_mcp_url", "Sandbox.get_mcp_token", "Secret.fill", "Secret.iam_token"}
PARTS = ("files", "commands", "pty", "git")
#: Classes beside the sandbox. Older clients lack secrets.
CLASSES = ("Template", "Secret", "Volume")


def public(owner: Any, prefix: str, only_static: bool = False) -> set[str]:
    """Returns the names of public methods. `only_static`: those that need no instance."""
    names = [name for name in dir(owner) if not name.startswith("_") and callable(getattr(owner, name))]
    return {f"{prefix}.{name}" for name in names if not only_static or is_static(inspect.getattr_static(owner, name))}


def is_static(method: Any) -> bool:
    """Returns whether a method is called on its class."""
    return isinstance(method, (classmethod, staticmethod)) or type(method).__name__ == "class_method_variant"


def methods_of(module: ModuleType, kind: str) -> list[str]:
    """Returns the public methods of a client. Those of the interpreter are only what it adds to the plain client."""
    plain = public(getattr(e2b, f"{kind}Sandbox"), "Sandbox")
    if module is not e2b:
        return sorted(public(getattr(module, f"{kind}Sandbox"), "Sandbox") - plain)
    found = set(plain)
    for part in PARTS:
        found |= public(inspect.signature(getattr(e2b, f"{kind}Sandbox").__dict__[part].fget).return_annotation, part)
    for name in CLASSES:
        found |= public(getattr(e2b, kind + name, None), name, only_static=True)
    return sorted(found)


async def verdict_of(call: Call, subject: Subject) -> str:
    """Returns `works`, `not yet` for a refusal that says so, and else what the call raised."""
    try:
        await call(subject)
    except Exception as error:  # Any other error of a call is its verdict, which the test shows.
        return "not yet" if re.search(r" yet\b", str(error)) else traceback.format_exc()
    return "works"


async def verdicts_of(methods: list[str], subject: Subject) -> dict[str, str]:
    """Returns the verdicts of methods. Makes a call that several methods share once."""
    calls = dict.fromkeys(CALLS[method] for method in methods if method in CALLS)
    ended = {call: await verdict_of(call, subject) for call in calls}
    without = {method: "not yet" if method in LOCAL else "has no call" for method in methods if method not in CALLS}
    return {method: without.get(method) or ended[CALLS[method]] for method in methods}


async def ledger_of(module: ModuleType, package: str, kind: str) -> tuple[str, dict[str, str]]:
    """Returns the title of a client and the verdicts of its methods."""
    released, name = version(package), kind.lower() or "sync"
    classes = [getattr(e2b, f"{kind}{each}", None) for each in CLASSES]
    sandbox = getattr(module, f"{kind}Sandbox")
    box = await done(sandbox.create(timeout=600))
    subject = Subject(f"{name}{released.replace('.', '')}", box, sandbox, *classes)
    verdicts = await verdicts_of(methods_of(module, kind), subject)
    await done(box.kill())
    return f"{package} {released} {name}", verdicts


async def main() -> None:
    """Calls all methods of all clients."""
    clients = [(e2b, "e2b"), (e2b_code_interpreter, "e2b-code-interpreter")]
    ledgers = [await ledger_of(module, package, kind) for module, package in clients for kind in ("", "Async")]
    print(json.dumps(dict(ledgers)))


asyncio.run(main())
