import { SIGNALS } from '@cloche/contract/client';
import { type Command as CommandHandle, type CommandInfo, Commands, type SandboxInfo, type Signal } from '@cloche/sdk';
import { type Command, Option } from 'commander';
import { group, leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { withRaw } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge } from '../terminal/duration.ts';
import { jsonLine } from '../terminal/printable.ts';
import { statusColor } from '../terminal/status-color.ts';
import { table } from '../terminal/table.ts';

export function addCommandCommands(program: Command): void {
  const logs = leaf(program, 'logs <sandbox> <command>', 'Print the output of a command', [
    'cloche logs -f sbx_… cmd_…',
  ]).option('-f, --follow', 'follow until the command ends, and exit with its exit code');
  perform(withRaw(logs), printLogs);

  const command = group(program, 'command', 'List and end commands of a sandbox');
  const list = leaf(command, 'list <sandbox>', 'List the commands of a sandbox');
  perform(paged(list), async (session, flags: PageFlags, sandboxId: string) => {
    const page = await (await commandsOf(session, sandboxId)).list(flags);
    const commands = page.map(({ info }) => info);
    const none = 'No commands yet. `cloche exec` runs one.';
    await showPage(session, page, () => commandTable(commands, session), { data: commands, none });
  });
  const kill = leaf(command, 'kill <sandbox> <command>', 'End a command and every process that it started', [
    'cloche command kill sbx_… cmd_… --signal SIGTERM',
  ]).addOption(new Option('-s, --signal <signal>', 'default: SIGKILL').choices(SIGNALS));
  perform(kill, async (session, { signal }: { signal?: Signal }, sandboxId: string, id: string) => {
    const handle = await (await commandsOf(session, sandboxId)).get(id);
    const { info } = await handle.kill(signal);
    if (session.json) await session.show(info, () => '');
    await session.note(`${info.id} ${info.status}`);
  });
}

/** Copies the command's stdout and stderr to those of this process, and sets the exit code to the command's. */
export async function followToEnd(session: Session, command: CommandHandle, signal: AbortSignal): Promise<void> {
  const { out, err } = session.terminal;
  const onPaused = () => session.note('The sandbox is paused; its output goes on when something resumes it.');
  for await (const event of command.events({ signal, onPaused })) {
    if (session.json) await out.line(jsonLine(event));
    else if (event.type === 'log') await (event.data.stream === 'stdout' ? out : err).program(event.data.data);
  }
  await explain(session, command.info);
}

async function printLogs(
  session: Session,
  { follow }: { follow?: boolean },
  sandboxId: string,
  commandId: string,
): Promise<void> {
  const command = await (await commandsOf(session, sandboxId)).get(commandId);
  using interruption = watchForInterruption({ follows: follow ?? false });
  if (follow) return followToEnd(session, command, interruption.signal);
  const { out, err } = session.terminal;
  const cloche = await session.connect();
  const params = { sandboxId: command.info.sandboxId, commandId: command.id };
  for (let afterSeq = 0, hasMore = true; hasMore; ) {
    const page = await cloche.call('listCommandLogs', { params, query: { afterSeq, limit: 1000 } });
    for (const entry of page.data) {
      // The format is the same as with `--follow`.
      if (session.json) await out.line(jsonLine({ type: 'log', data: entry }));
      else await (entry.stream === 'stdout' ? out : err).program(entry.data);
    }
    ({ nextSeq: afterSeq, hasMore } = page);
  }
}

async function explain(session: Session, { status, exitCode, failureReason }: CommandInfo): Promise<void> {
  process.exitCode = exitCode ?? 1;
  if (status === 'failed') await session.note(failureReason ?? 'The command failed.');
  if (status === 'timed_out') await session.note('The command was killed: it reached its timeout.');
}

async function commandsOf(session: Session, sandboxId: string): Promise<Commands> {
  return new Commands(await session.connect(), sandboxId as SandboxInfo['id']);
}

function commandTable(commands: readonly CommandInfo[], session: Session): string {
  return table(
    commands,
    [
      { title: 'ID', value: ({ id }) => id },
      {
        title: 'STATUS',
        value: ({ status }) => status,
        style: (cell, { status }, colors) => statusColor(status, colors)(cell),
      },
      { title: 'EXIT', value: ({ exitCode }) => (exitCode === undefined ? '-' : String(exitCode)) },
      { title: 'STARTED', value: ({ startedAt }) => formatAge(startedAt) },
      {
        title: 'COMMAND',
        value: ({ command }) => (typeof command === 'string' ? command : command.join(' ')),
      },
    ],
    session.terminal.out,
  );
}
