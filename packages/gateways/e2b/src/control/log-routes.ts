import type { CommandLogEntry, SandboxId } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { Command } from '@cloche/sdk';
import { Commands } from '@cloche/sdk';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { E2bDeps } from '../e2b-deps.ts';
import { clientOf } from './client-of.ts';

/** Commands whose output is read, the newest ones. */
const COMMANDS = 20;
/** Entries of one answer, at most and by default. */
const ENTRIES = 1000;
const NUMBER = { type: 'string', pattern: '^\\d{1,15}$', maxLength: 15 };
const LOGS_SCHEMA = {
  querystring: {
    type: 'object',
    properties: { start: NUMBER, cursor: NUMBER, limit: NUMBER, direction: { enum: ['forward', 'backward'] } },
  },
};

interface LogsRequest {
  Params: { sandboxID: string };
  Querystring: {
    readonly start?: string;
    readonly cursor?: string;
    readonly limit?: string;
    readonly direction?: 'forward' | 'backward';
  };
}

/** Registers the logs of a sandbox: the output of its commands. Times of a query are milliseconds since the epoch. */
export async function logRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  app.get<LogsRequest>('/sandboxes/:sandboxID/logs', { schema: LOGS_SCHEMA }, async (request) => {
    const entries = await entriesOf(request, deps);
    return { logs: entries.map(({ timestamp, ...rest }) => ({ timestamp, line: lineOf(rest) })), logEntries: entries };
  });
  app.get<LogsRequest>('/v2/sandboxes/:sandboxID/logs', { schema: LOGS_SCHEMA }, async (request) => ({
    logs: await entriesOf(request, deps),
  }));
}

type Entry = ReturnType<typeof entryOf>;

function lineOf({ message, level, fields }: Omit<Entry, 'timestamp'>): string {
  return JSON.stringify({ ...fields, level, message });
}

async function entriesOf(request: FastifyRequest<LogsRequest>, deps: E2bDeps): Promise<Entry[]> {
  const { start, cursor = start, limit = String(ENTRIES), direction = 'forward' } = request.query;
  const cloche = clientOf(request, deps);
  const { id, info } = await cloche.sandboxes.get(request.params.sandboxID);
  // To read them would wake the sandbox, and clients read logs again and again.
  if (info.paused) throw new GatewayError(409, 'The sandbox is paused; its logs can be read while it runs.');
  const sandboxId = id as SandboxId;
  const commands = await new Commands(cloche, sandboxId).list({ limit: COMMANDS });
  const read = commands.map(async (command) => {
    const params = { sandboxId, commandId: command.id };
    const { data } = await cloche.call('listCommandLogs', { params, query: { limit: ENTRIES } });
    return data.map((entry) => entryOf(command, entry));
  });
  const all = (await Promise.all(read)).flat();
  const isBackward = direction === 'backward';
  const from = cursor === undefined ? undefined : Number(cursor);
  const at = ({ timestamp }: Entry) => Date.parse(timestamp);
  const kept = all.filter((entry) => from === undefined || (isBackward ? at(entry) <= from : at(entry) >= from));
  kept.sort((one, other) => (isBackward ? at(other) - at(one) : at(one) - at(other)));
  return kept.slice(0, Math.min(ENTRIES, Number(limit)));
}

function entryOf({ id }: Command, { at, stream, data }: CommandLogEntry) {
  const level = stream === 'stderr' ? 'error' : 'info';
  return { timestamp: at, level, message: data, fields: { logger: 'process', process: id, stream } };
}
