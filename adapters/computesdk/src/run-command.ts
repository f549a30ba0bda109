import type { CommandInfo, Sandbox } from '@cloche/sdk';
import {
  type CommandResult,
  type RunCommandOptions,
  START_FAILURE_EXIT_CODE,
  TIMEOUT_EXIT_CODE,
} from '@computesdk/provider';

/** The longest time that the service allows, because ComputeSDK has no limit of its own. */
const LONGEST_MS = 3_600_000;

/** Runs a shell line to its end and hands over its output as it comes. */
export async function runCommand(
  sandbox: Sandbox,
  command: string,
  { timeout = LONGEST_MS, onStdout = ignore, onStderr, ...options }: RunCommandOptions = {},
): Promise<CommandResult> {
  const started = performance.now();
  const limits = { cwd: options.cwd, env: options.env, timeoutMs: timeout };
  const ended = await sandbox.commands.run(command, { ...limits, onStdout, onStderr });
  return {
    stdout: ended.stdout ?? '',
    stderr: [ended.stderr ?? '', ...notes(ended)].join(''),
    exitCode: ended.status === 'timed_out' ? TIMEOUT_EXIT_CODE : (ended.exitCode ?? START_FAILURE_EXIT_CODE),
    durationMs: ended.durationMs ?? Math.round(performance.now() - started),
  };
}

/** Starts a shell line and returns while it runs, without output. */
export async function startCommand(
  sandbox: Sandbox,
  command: string,
  { cwd, env, timeout }: RunCommandOptions,
): Promise<CommandResult> {
  const started = performance.now();
  await sandbox.commands.start(command, { cwd, env, timeoutMs: timeout });
  return { stdout: '', stderr: '', exitCode: 0, durationMs: Math.round(performance.now() - started) };
}

/** A command whose output is followed has no time limit of one response. */
function ignore(): void {}

function notes({ status, failureReason, truncated }: CommandInfo): string[] {
  const cut = Object.entries(truncated ?? {}).map(
    ([stream, bytes]) => `cloche: ${bytes} bytes of ${stream} are left out\n`,
  );
  if (status === 'timed_out') return [...cut, 'cloche: the command took too long and was ended\n'];
  return status === 'failed' && failureReason !== undefined ? [...cut, `cloche: ${failureReason}\n`] : cut;
}
