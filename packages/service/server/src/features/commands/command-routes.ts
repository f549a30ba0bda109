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
    route(operations.createCommand, async ({ call, params, body }) => ({
      command: await createCommand.create(call, { ...params, body }),
    })),
    route(operations.runCommand, async ({ call, params, body }) => ({
      command: await createCommand.create(call, { ...params, body: { ...body, background: false } }),
    })),
    route(operations.startCommand, async ({ call, params, body }) => ({
      command: await createCommand.create(call, { ...params, body: { ...body, background: true } }),
    })),
    socketRoute(operations.openPty, ({ call, params, query }) => terminals.open(call, params.sandboxId, query)),
    listRoute(operations.listCommands, ({ call, params }) => readCommands.list(call, params.sandboxId)),
    route(operations.getCommand, async ({ call, params, query }) => ({
      command: await readCommands.get(call, params, query.waitMs ?? 0),
    })),
    route(operations.listCommandLogs, async ({ call, params, query }) =>
      readCommands.logs(call, params, { afterSeq: query.afterSeq ?? 0, limit: query.limit ?? PAGE_ENTRIES }),
    ),
    streamRoute(operations.streamCommand, async ({ call, params, query, lastEventId }) =>
      numbered(await readCommands.follow(call, params, lastSeen(lastEventId) ?? query.afterSeq ?? 0)),
    ),
    route(operations.writeCommandStdin, async ({ call, params, body }) => ({
      command: await changes.writeStdin(call, params, body as CommandStdinBody),
    })),
    route(operations.resizeCommand, async ({ call, params, body }) => ({
      command: await changes.resize(call, params, body),
    })),
    route(operations.killCommand, async ({ call, params, body }) => ({
      command: await changes.kill(call, params, body.signal ?? 'SIGKILL'),
    })),
  ];
}

/** Numbers the log events, so that a client that reconnects can resume after the last one. */
async function* numbered(events: AsyncIterable<CommandEvent>): AsyncGenerator<CommandEvent & { id?: number }, void> {
  for await (const event of events) yield event.type === 'log' ? { ...event, id: event.data.seq } : event;
}
