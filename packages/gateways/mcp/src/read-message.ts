import type { IncomingMessage } from 'node:http';
import { GatewayError, readJson } from '@cloche/kit';
import { bytesUpTo } from '@cloche/node-support';

/** Largest request: a file that a tool writes is in it. */
const BODY_BYTES = 8 * 1024 * 1024;
/** Most values of a request. */
const MAX_VALUES = 10_000;
const PARSE_ERROR = -32_700;
const SERVER_ERROR = -32_000;

/** A body that is not read, with the status and the code of JSON-RPC that say why. */
export class UnreadableMessage extends GatewayError {
  readonly code: number;

  constructor(status: number, code: number, message: string) {
    super(status, message);
    this.code = code;
  }
}

/**
 * Reads the JSON of a request; undefined for a method without a body. The library's own reader knows other limits than
 * ours, and none for values and levels.
 *
 * @throws UnreadableMessage
 */
export async function readMessage(request: IncomingMessage): Promise<unknown> {
  if (request.method !== 'POST') return undefined;
  if (Number(request.headers['content-length']) > BODY_BYTES) throw tooLarge();
  // The connection stays for the answer.
  const bytes = await bytesUpTo(BODY_BYTES, request.iterator({ destroyOnReturn: false }));
  if (!bytes) throw tooLarge();
  try {
    return readJson(bytes, MAX_VALUES);
  } catch (error) {
    throw new UnreadableMessage(400, PARSE_ERROR, (error as Error).message);
  }
}

function tooLarge(): UnreadableMessage {
  return new UnreadableMessage(413, SERVER_ERROR, `The request must not exceed ${BODY_BYTES} bytes.`);
}
