import type { Command as CommandInfo } from '@cloche/contract';
import { z } from 'zod';
import type { Tools } from './tools.ts';

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
  sandboxId: z.string().describe('Id of the sandbox.'),
  command: z.string().min(1).describe('A shell line; it runs as `bash -lc`.'),
  cwd: z.string().optional().describe('Working directory. Default: /workspace.'),
  user: z.enum(['user', 'root']).default('user').describe('`root` is root only inside the sandbox.'),
};
const byId = {
  sandboxId: z.string().describe('Id of the sandbox.'),
  commandId: z.string().describe('Id of the command.'),
};

/** Adds the tools that run commands. */
export function addCommandTools(tools: Tools): void {
  const { cloche } = tools;
  tools.add(
    'command_run',
    {
      title: 'Run a command',
      description: 'Runs a shell command to its end and returns its output and exit code.',
      input: z.object({ ...start, timeoutMs: z.int().min(1).max(600_000).default(60_000) }),
      output: z.object({ command }),
    },
    async ({ sandboxId, command: line, cwd, user, timeoutMs }, signal) => {
      const { commands } = await cloche.sandboxes.get(sandboxId, { signal });
      const ended = await commands.run(line, { user, timeoutMs, signal, ...(cwd === undefined ? {} : { cwd }) });
      return { output: { command: infoOf(ended) } };
    },
  );
  tools.add(
    'command_start',
    {
      title: 'Start a command',
      description: 'Starts a shell command in the background, such as a server. `command_logs` reads its output.',
      input: z.object(start),
      output: z.object({ command }),
    },
    async ({ sandboxId, command: line, cwd, user }, signal) => {
      const { commands } = await cloche.sandboxes.get(sandboxId, { signal });
      const { info } = await commands.start(line, { user, signal, ...(cwd === undefined ? {} : { cwd }) });
      return { output: { command: infoOf(info) } };
    },
  );
  tools.add(
    'command_logs',
    {
      title: 'Read the output of a command',
      description:
        'Returns output of a command so far, after the entry `afterSeq`, and whether the command still runs.',
      input: z.object({ ...byId, afterSeq: z.int().min(0).default(0) }),
      output: z.object({ status: z.string(), output: z.string(), lastSeq: z.int() }),
      readOnly: true,
    },
    async ({ sandboxId, commandId, afterSeq }, signal) => {
      const params = { sandboxId, commandId } as { sandboxId: CommandInfo['sandboxId']; commandId: CommandInfo['id'] };
      const [{ command: info }, { data }] = await Promise.all([
        cloche.call('getCommand', { params, signal }),
        cloche.call('listCommandLogs', { params, query: { afterSeq, limit: LOG_ENTRIES }, signal }),
      ]);
      const output = data.map((entry) => entry.data).join('');
      return { output: { status: info.status, output, lastSeq: data.at(-1)?.seq ?? afterSeq } };
    },
  );
  tools.add(
    'command_kill',
    {
      title: 'End a command',
      description: 'Ends a command and all processes that it started.',
      input: z.object(byId),
      output: z.object({ command }),
    },
    async ({ sandboxId, commandId }, signal) => {
      const { commands } = await cloche.sandboxes.get(sandboxId, { signal });
      return { output: { command: infoOf((await commands.kill(commandId, 'SIGKILL', { signal })).info) } };
    },
  );
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
