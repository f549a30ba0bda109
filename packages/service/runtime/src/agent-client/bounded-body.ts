/** Reads whole bodies of a peer, limited in size and validated. The signal of the request limits the time. */
import { StringDecoder } from 'node:string_decoder';
import { parsePlainJson } from '@cloche/node-support';
import type { TSchema } from 'typebox';
import type { Validator } from 'typebox/compile';

/** Most values in a body: those of a list of as many instances as one host has, or of a page of a log. */
const MAX_VALUES = 1_000_000;

/** The peer's response does not match the protocol. */
export class MalformedResponseError extends Error {
  override readonly name = 'MalformedResponseError';
}

/** @throws MalformedResponseError above `maxBytes`, and the error of a body that breaks off. */
export async function readText(body: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
  // Decoded one by one: to join many chunks of one byte at the end would take long.
  const decoder = new StringDecoder('utf8');
  let text = '';
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    // Leaving the loop destroys the body, and with it the connection.
    if (bytes > maxBytes) throw new MalformedResponseError(`the answer has more than ${maxBytes} bytes`);
    text += decoder.write(chunk);
  }
  return text + decoder.end();
}

/** Throws as `readText` and `parseJson` do. */
export async function readJson<S extends TSchema>(
  body: AsyncIterable<Buffer>,
  schema: Validator<Record<never, never>, S>,
  maxBytes: number,
): Promise<ReturnType<typeof schema.Parse>> {
  return parseJson(await readText(body, maxBytes), schema);
}

/** @throws MalformedResponseError for a text that is not JSON, has too many values or levels, or does not match `schema`. */
export function parseJson<S extends TSchema>(
  text: string,
  schema: Validator<Record<never, never>, S>,
): ReturnType<typeof schema.Parse> {
  let value: unknown;
  try {
    value = parsePlainJson(text, MAX_VALUES);
  } catch (error) {
    throw new MalformedResponseError('the answer is not valid JSON or has too many values', { cause: error });
  }
  if (!schema.Check(value)) throw new MalformedResponseError('the answer does not match its schema');
  return value;
}
