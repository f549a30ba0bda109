import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type AgentCommandEvent, COMMAND_PAGE_BYTES } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { answer } from '../wire/answer.ts';
import { readJson } from '../wire/requests.ts';
import type { Command } from './command.ts';
import type { CommandRegistry } from './command-registry.ts';
import {
  readFollowRequest,
  readLogRequest,
  readSignal,
  readStartCommand,
  readTerminalSize,
  readWriteStdin,
} from './command-requests.ts';

/** Most log entries that a follower receives at once. */
const FOLLOW_ENTRIES = 256;
const FOLLOW_BYTES = 256 * 1024;

/** Serves the requests that `agent-protocol/commands.ts` describes. `action` is the part of the path after the id. */
export async function routeCommand(
  commands: CommandRegistry,
  { id, action }: { id: string; action: string | undefined },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  switch ([request.method, action].filter(Boolean).join(' ')) {
    case 'PUT':
      return answer(response, 200, (await commands.start(id, readStartCommand(await readJson(request)))).description);
    case 'GET':
      return answer(response, 200, commands.get(id).description);
    case 'GET end': {
      const command = commands.get(id);
      await command.hasEnded();
      return answer(response, 200, command.description);
    }
    case 'POST result': {
      const command = commands.get(id);
      await command.hasEnded();
      await sendLines(response, command.result());
      return command.releaseCapture();
    }
    case 'POST logs': {
      const { afterSeq, limit } = readLogRequest(await readJson(request));
      return answer(response, 200, commands.get(id).log.page(afterSeq, limit, COMMAND_PAGE_BYTES));
    }
    case 'POST follow': {
      const command = commands.get(id);
      return sendLines(response, follow(command, readFollowRequest(await readJson(request)), goneSignal(response)));
    }
    case 'POST stdin': {
      const { dataBase64, close } = readWriteStdin(await readJson(request));
      await commands.get(id).write(Buffer.from(dataBase64, 'base64'), close);
      return answer(response, 204);
    }
    case 'POST resize': {
      commands.get(id).resize(readTerminalSize(await readJson(request)));
      return answer(response, 204);
    }
    case 'POST prevent':
      return answer(response, 200, commands.prevent(id).description);
    case 'POST kill': {
      const command = commands.get(id);
      const signal = readSignal(await readJson(request));
      if (signal === 'SIGKILL') await command.kill();
      else command.signal(signal);
      return answer(response, 200, command.description);
    }
    default:
      throw new AgentError('not_found', `The agent has no ${request.method} of commands ${action ?? ''}.`);
  }
}

/**
 * Yields new entries, each once, then the end. A slow reader misses dropped entries, and gets an entry that says so.
 */
async function* follow(
  command: Command,
  afterSeq: number,
  signal: AbortSignal,
): AsyncGenerator<AgentCommandEvent, void> {
  let seen = afterSeq;
  while (!signal.aborted) {
    const wasRunning = command.isRunning;
    const { entries } = command.log.page(seen, FOLLOW_ENTRIES, FOLLOW_BYTES);
    for (const entry of entries) yield { type: 'log', entry };
    seen = entries.at(-1)?.seq ?? seen;
    if (entries.length > 0) continue;
    if (!wasRunning) return yield { type: 'exit', command: command.description };
    await command.log.waitBeyond(seen, signal);
  }
}

/** Returns a signal that aborts when the response is closed. */
function goneSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once('close', () => controller.abort());
  if (response.destroyed) controller.abort();
  return controller.signal;
}

async function sendLines(
  response: ServerResponse,
  messages: Iterable<unknown> | AsyncIterable<unknown>,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'application/x-ndjson' });
  // Sends the headers at once, so that a follower of a silent command knows that the request succeeded.
  response.flushHeaders();
  await pipeline(Readable.from(lines(messages), { objectMode: false, highWaterMark: FOLLOW_BYTES }), response);
}

async function* lines(messages: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<string, void> {
  for await (const message of messages) yield `${JSON.stringify(message)}\n`;
}
