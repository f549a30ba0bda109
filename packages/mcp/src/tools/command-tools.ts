import type { Command as CommandInfo } from '@cloche/contract';
import { Commands } from '@cloche/sdk';
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
  const commandsOf = (sandboxId: string) => new Commands(cloche, sandboxId as CommandInfo['sandboxId']);
  tools.add(
    'command_run',
    {
      title: 'Run a command',
      description: 'Runs a shell command to its end and returns its output and exit code.',
      input: z.object({ ...start, timeoutMs: z.int().min(1).max(600_000).default(60_000) }),
      output: z.object({ command }),
    },
    async ({ sandboxId, command: line, cwd, user, timeoutMs }, { signal, report }) => {
      const output = { onStdout: report, onStderr: report };
      const ended = await commandsOf(sandboxId).run(line, { user, timeoutMs, signal, cwd, ...output });
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
    async ({ sandboxId, command: line, cwd, user }, { signal }) => {
      const { info } = await commandsOf(sandboxId).start(line, { user, signal, cwd });
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
    async ({ sandboxId, commandId, afterSeq }, { signal }) => {
      const params = paramsOf(sandboxId, commandId);
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
    async ({ sandboxId, commandId }, { signal }) => {
      const params = paramsOf(sandboxId, commandId);
      const { command: ended } = await cloche.call('killCommand', { params, body: { signal: 'SIGKILL' }, signal });
      return { output: { command: infoOf(ended) } };
    },
  );
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
