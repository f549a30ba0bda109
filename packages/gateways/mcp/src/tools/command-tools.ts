import { type Command as CommandInfo, LIMITS } from '@cloche/contract';
import { type Cloche, Commands } from '@cloche/sdk';
import { z } from 'zod';
import { id, path, usedSandboxId } from './schemas.ts';
import { describeTool } from './tool.ts';

/** Most entries of a log that one call returns. */
const LOG_ENTRIES = 1000;

const command = z.object({
  id: z.string(),
  status: z.string(),
  exitCode: z.int().optional(),
  stdout: z.string().optional(),
  stderr: z.string().optional(),
});
const start = {
  sandboxId: usedSandboxId,
  command: z.string().min(1).max(LIMITS.commandArgumentBytes).describe('A shell line; it runs as `bash -lc`.'),
  cwd: path().optional().describe('Working directory. Default: /workspace.'),
  user: z.enum(['user', 'root']).default('user').describe('`root` is root only inside the sandbox.'),
};
const byId = {
  sandboxId: usedSandboxId,
  commandId: id().describe('Id of the command.'),
};

/** The tools that run commands. */
export const commandTools = [
  describeTool(
    'command_run',
    {
      title: 'Run a command',
      description: 'Runs a shell command to its end and returns its output and exit code.',
      input: z.object({ ...start, timeoutMs: z.int().min(1).max(LIMITS.runTimeoutMaxMs).default(60_000) }),
      output: z.object({ sandboxId: z.string(), command }),
    },
    async ({ sandboxId, command: line, cwd, user, timeoutMs }, { cloche, signal, sandbox, output }) => {
      const usedId = await sandbox.id(sandboxId, true);
      const ended = await commandsOf(cloche, usedId).run(line, { user, timeoutMs, signal, cwd, ...output });
      return { output: { sandboxId: usedId, command: infoOf(ended) } };
    },
  ),
  describeTool(
    'command_start',
    {
      title: 'Start a command',
      description: 'Starts a shell command in the background, such as a server. `command_logs` reads its output.',
      input: z.object(start),
      output: z.object({ sandboxId: z.string(), command }),
    },
    async ({ sandboxId, command: line, cwd, user }, { cloche, signal, sandbox }) => {
      const usedId = await sandbox.id(sandboxId, true);
      const { info } = await commandsOf(cloche, usedId).start(line, { user, signal, cwd });
      return { output: { sandboxId: usedId, command: infoOf(info) } };
    },
  ),
  describeTool(
    'command_logs',
    {
      title: 'Read the output of a command',
      description:
        'Returns output of a command so far, after the entry `afterSeq`, and whether the command still runs.',
      input: z.object({ ...byId, afterSeq: z.int().min(0).default(0) }),
      output: z.object({ status: z.string(), output: z.string(), lastSeq: z.int() }),
      readOnly: true,
    },
    async ({ sandboxId, commandId, afterSeq }, { cloche, signal, sandbox }) => {
      const params = paramsOf(await sandbox.id(sandboxId), commandId);
      const [{ command: info }, { data }] = await Promise.all([
        cloche.call('getCommand', { params, signal }),
        cloche.call('listCommandLogs', { params, query: { afterSeq, limit: LOG_ENTRIES }, signal }),
      ]);
      const output = data.map((entry) => entry.data).join('');
      return { output: { status: info.status, output, lastSeq: data.at(-1)?.seq ?? afterSeq } };
    },
  ),
  describeTool(
    'command_kill',
    {
      title: 'End a command',
      description: 'Ends a command and all processes that it started.',
      input: z.object(byId),
      output: z.object({ command }),
    },
    async ({ sandboxId, commandId }, { cloche, signal, sandbox }) => {
      const params = paramsOf(await sandbox.id(sandboxId), commandId);
      const { command: ended } = await cloche.call('killCommand', { params, body: { signal: 'SIGKILL' }, signal });
      return { output: { command: infoOf(ended) } };
    },
  ),
];

function commandsOf(cloche: Cloche, sandboxId: string): Commands {
  return new Commands(cloche, sandboxId as CommandInfo['sandboxId']);
}

/** Casts the ids. Ids are opaque, so only the service can check them. */
function paramsOf(sandboxId: string, commandId: string) {
  return { sandboxId: sandboxId as CommandInfo['sandboxId'], commandId: commandId as CommandInfo['id'] };
}

function infoOf({ id, status, exitCode, stdout, stderr }: CommandInfo) {
  return {
    id,
    status,
    ...(exitCode === undefined ? {} : { exitCode }),
    ...(stdout === undefined ? {} : { stdout }),
    ...(stderr === undefined ? {} : { stderr }),
  };
}
