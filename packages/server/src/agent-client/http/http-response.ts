/** Reads whole responses of a peer over a Unix socket, limited in size and validated. */
import type { TSchema } from 'typebox';
import type { Validator } from 'typebox/compile';
import { type Dispatcher, errors } from 'undici';

/** Largest response, a list of instances or versions. Everything else is far smaller. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;

/** The peer's response does not match the protocol. */
export class MalformedResponseError extends Error {
  override readonly name = 'MalformedResponseError';
}

export async function readJson<S extends TSchema>(
  response: Dispatcher.ResponseData,
  schema: Validator<Record<never, never>, S>,
  maxBytes: number = MAX_BODY_BYTES,
): Promise<ReturnType<typeof schema.Parse>> {
  const value = parse(await readText(response, maxBytes));
  if (!schema.Check(value)) throw new MalformedResponseError('an answer that does not fit its schema');
  return value;
}

export async function readText(response: Dispatcher.ResponseData, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response.body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Leaving the loop destroys the body, and with it the connection.
    if (bytes > maxBytes) throw new MalformedResponseError(`an answer of more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new MalformedResponseError('an answer that is not JSON', { cause: error });
  }
}

/** Whether the connection failed or broke, as opposed to an invalid response. */
export function isConnectionError(error: unknown): boolean {
  if (error instanceof errors.SocketError || error instanceof errors.ConnectTimeoutError) return true;
  if (error instanceof errors.ClientDestroyedError || error instanceof errors.ClientClosedError) return true;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && CONNECTION_CODES.has(code);
}

const CONNECTION_CODES = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EPIPE', 'ENOTSOCK', 'UND_ERR_SOCKET']);
