"""Uses SandboxFusion's own client against a service, sync and async. `SANDBOX_FUSION_ENDPOINT` names it."""

import asyncio
import base64
import unittest

from sandbox_fusion import (
    CommandRunStatus,
    RunCodeRequest,
    RunCodeResponse,
    RunStatus,
    run_code,
    run_code_async,
    run_concurrent,
)


def run(code: str, language: str = "python", **more: object) -> RunCodeResponse:
    return run_code(RunCodeRequest(code=code, language=language, **more), max_attempts=1)


class SandboxFusion(unittest.TestCase):
    """Programs that the client sends."""

    def test_runs_each_language(self) -> None:
        """Runs a program in each language."""
        programs = {
            "python": "print(6 * 7)",
            "nodejs": "console.log(6 * 7)",
            "typescript": "const n: number = 42; console.log(n)",
            "bash": "echo $((6 * 7))",
        }
        for language, code in programs.items():
            ended = run(code, language)
            self.assertEqual(
                (ended.status, ended.run_result.return_code, ended.run_result.stdout), (RunStatus.Success, 0, "42\n")
            )

    def test_tells_failures_and_time_limits_apart(self) -> None:
        """Reports the exit code of a failed program, and another status for one that took too long."""
        failed = run("import sys; print('bad', file=sys.stderr); sys.exit(3)")
        self.assertEqual(
            (failed.status, failed.run_result.return_code, failed.run_result.stderr), (RunStatus.Failed, 3, "bad\n")
        )
        late = run("print('begun', flush=True)\nwhile True: pass", run_timeout=10)
        self.assertEqual((late.status, late.run_result.status), (RunStatus.Failed, CommandRunStatus.TimeLimitExceeded))
        self.assertEqual(late.run_result.stdout, "begun\n")

    def test_takes_input_and_files_and_returns_files(self) -> None:
        """Gives a program its input and files, and returns those that it has written."""
        code = "import sys; open('out/b', 'w').write(sys.stdin.read()); print(open('out/a').read())"
        given = base64.b64encode(b"given").decode()
        ended = run(code, stdin="typed", files={"out/a": given}, fetch_files=["out/b", "missing", "/mnt/c", "out"])
        self.assertEqual((ended.run_result.stdout, list(ended.files)), ("given\n", ["out/b"]))
        self.assertEqual(base64.b64decode(ended.files["out/b"]), b"typed")

    def test_runs_programs_at_once_each_in_a_sandbox_of_its_own(self) -> None:
        """Shows no program the files of another one."""
        code = "import os; print(os.path.exists('/tmp/seen')); open('/tmp/seen', 'w')"
        requests = [[RunCodeRequest(code=code, language="python", run_timeout=60)] for _ in range(3)]
        self.assertEqual([each.run_result.stdout for each in run_concurrent(run_code, args=requests)], ["False\n"] * 3)

    def test_runs_asynchronously(self) -> None:
        """Serves the asynchronous client."""
        ended = asyncio.run(run_code_async(RunCodeRequest(code="print(1)", language="python"), max_attempts=1))
        self.assertEqual(ended.run_result.stdout, "1\n")

    def test_refuses_other_languages(self) -> None:
        """Names the languages that there are."""
        with self.assertRaisesRegex(Exception, "422.*python, javascript, typescript, bash"):
            run("fn main() {}", "rust")


if __name__ == "__main__":
    unittest.main()
