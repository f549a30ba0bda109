"""Holds the provider to Inspect's own checks, with a real sandbox. Reads CLOCHE_URL and CLOCHE_API_KEY."""

from collections.abc import AsyncIterator

import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from inspect_cloche import ClocheSandboxEnvironment

NOT_SATISFIED = {"test_exec_as_user": "a sandbox has the users `user` and `root`, and no others"}


@pytest.fixture(scope="module")
async def shared_env() -> AsyncIterator[SandboxEnvironment]:
    environments = await ClocheSandboxEnvironment.sample_init("self-check", None, {})
    yield environments["default"]
    await ClocheSandboxEnvironment.sample_cleanup("self-check", None, environments, False)


@pytest.fixture
def sandbox_env(request: pytest.FixtureRequest, shared_env: SandboxEnvironment) -> SandboxEnvironment:
    reason = NOT_SATISFIED.get(request.node.originalname)
    if reason is not None:
        request.node.add_marker(pytest.mark.xfail(strict=True, reason=reason))
    return shared_env
