import { type CommandEvent, type CommandStdinBody, operations } from '@cloche/contract';
import { lastSeen } from '../../platform/http/last-seen.ts';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route, socketRoute, streamRoute } from '../../platform/http/route.ts';
import type { ChangeCommand } from './change-command.ts';
import type { CreateCommand } from './create-command.ts';
import type { OpenPty } from './open-pty.ts';
import type { ReadCommands } from './read-commands.ts';

const PAGE_ENTRIES = 100;

export function commandRoutes(
  createCommand: CreateCommand,
  readCommands: ReadCommands,
  changes: ChangeCommand,
  terminals: OpenPty,
): Route[] {
  return [
    route(operations.createCommand, async (request) => ({ command: await createCommand.create(request) })),
    route(operations.runCommand, async (request) => ({
      command: await createCommand.create({ ...request, body: { ...request.body, background: false } }),
    })),
    route(operations.startCommand, async (request) => ({
      command: await createCommand.create({ ...request, body: { ...request.body, background: true } }),
    })),
    socketRoute(operations.openPty, (request) => terminals.open(request)),
    listRoute(operations.listCommands, ({ credential, params }) => readCommands.list(credential, params.sandboxId)),
    route(operations.getCommand, async (request) => ({
      command: await readCommands.get(request, request.query.waitMs ?? 0),
    })),
    route(operations.listCommandLogs, async (request) =>
      readCommands.logs(request, request.query.afterSeq ?? 0, request.query.limit ?? PAGE_ENTRIES),
    ),
    streamRoute(operations.streamCommand, async (request) =>
      numbered(await readCommands.follow(request, lastSeen(request.lastEventId) ?? request.query.afterSeq ?? 0)),
    ),
    route(operations.writeCommandStdin, async (request) => ({
      command: await changes.writeStdin({ ...request, body: request.body as CommandStdinBody }),
    })),
    route(operations.resizeCommand, async (request) => ({ command: await changes.resize(request, request.body) })),
    route(operations.killCommand, async (request) => ({
      command: await changes.kill(request, request.body.signal ?? 'SIGKILL'),
    })),
  ];
}

/** Numbers the log events, so that a client that reconnects can resume after the last one. */
async function* numbered(events: AsyncIterable<CommandEvent>): AsyncGenerator<CommandEvent & { id?: number }, void> {
  for await (const event of events) yield event.type === 'log' ? { ...event, id: event.data.seq } : event;
}
