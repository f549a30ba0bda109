"""What Inspect's own checks leave open, with real sandboxes."""

from pathlib import Path

import pytest
from cloche import Cloche
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentSpec, SandboxUnavailableError, sandbox

from inspect_cloche import ClocheConfig, ClocheSandboxEnvironment


@solver
def uses_its_sandbox() -> Solver:
    async def solve(state: TaskState, _generate: Generate) -> TaskState:
        result = await sandbox().exec(["sh", "-c", "cat question.txt; echo $COLOR"])
        state.output.completion = result.stdout
        return state

    return solve


async def test_evaluation_has_a_sandbox_for_each_sample_and_leaves_none(tmp_path: Path) -> None:
    config = ClocheConfig(env={"COLOR": "teal"}, network_policy={"mode": "deny-all"})
    samples = [Sample(name, target=f"{name}\nteal", files={"question.txt": f"{name}\n"}) for name in ("one", "two")]
    task = Task(
        samples,
        name="adapter-check",
        solver=uses_its_sandbox(),
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("cloche", config),
    )
    [log] = await eval_async(task, model="mockllm/model", log_dir=str(tmp_path))
    assert log.status == "success", log.error
    assert log.results is not None
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    with Cloche() as cloche:
        ended = cloche.sandboxes.list(metadata={"inspect-task": "adapter-check"}, include="historical")
        assert [each.info.status for each in ended] == ["destroyed", "destroyed"]


async def test_output_that_is_too_long_raises() -> None:
    environments = await ClocheSandboxEnvironment.sample_init("output", None, {})
    env = environments["default"]
    try:
        with pytest.raises(OutputLimitExceededError):
            await env.exec(["head", "-c", "9000000", "/dev/zero"], timeout=60)
        assert (await env.connection()).command.startswith("cloche shell sbx_")
    finally:
        await ClocheSandboxEnvironment.sample_cleanup("output", None, environments, False)
    with Cloche() as cloche:
        assert cloche.sandboxes.list(metadata={"inspect-task": "output"}) == []


async def test_sandbox_that_has_ended_is_unavailable() -> None:
    environments = await ClocheSandboxEnvironment.sample_init("gone", None, {})
    env = environments["default"].as_type(ClocheSandboxEnvironment)
    await ClocheSandboxEnvironment.cli_cleanup(env.sandbox.id)
    with pytest.raises(SandboxUnavailableError):
        await env.exec(["true"])
    await ClocheSandboxEnvironment.sample_cleanup("gone", None, environments, False)
