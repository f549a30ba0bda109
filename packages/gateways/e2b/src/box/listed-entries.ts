import { create, toBinary, toJsonString } from '@bufbuild/protobuf';
import type { FileEntry } from '@cloche/contract';
import { type ContextValues, createContextKey } from '@connectrpc/connect';
import type { UniversalServerResponse } from '@connectrpc/connect/protocol';
import { type EntryInfo, EntryInfoSchema, ListDirResponseSchema } from '../generated/filesystem/filesystem_pb.js';

const PIECE_BYTES = 64 * 1024;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSE: ReadonlySet<number> = new Set([0x5d, 0x7d]);
/** Levels of `{"data":[{` at the start of an entry. */
const ENTRY_DEPTH = 3;

/** Entries that are streamed in the response instead of the entries in its message. */
export const ENTRIES = createContextKey<AsyncIterable<EntryInfo> | undefined>(undefined);

/**
 * Returns a response whose entries are sent as they arrive: a listing may have many megabytes, and a message of Connect
 * would be all of them at once.
 */
export function withEntries(response: UniversalServerResponse, values: ContextValues): UniversalServerResponse {
  const entries = values.get(ENTRIES);
  const { status, header = new Headers() } = response;
  if (entries === undefined || status !== 200) return response;
  header.delete('content-length');
  const encode = header.get('content-type') === 'application/json' ? asJson : asBinary;
  return { ...response, header, body: inPieces(encode(entries)) };
}

async function* asJson(entries: AsyncIterable<EntryInfo>): AsyncGenerator<Uint8Array, void> {
  let before = '{"entries":[';
  for await (const entry of entries) {
    yield Buffer.from(before + toJsonString(EntryInfoSchema, entry));
    before = ',';
  }
  yield Buffer.from(before === ',' ? ']}' : `${before}]}`);
}

/** Messages with some entries each, one after another, are one message with all entries. */
async function* asBinary(entries: AsyncIterable<EntryInfo>): AsyncGenerator<Uint8Array, void> {
  for await (const entry of entries) {
    yield toBinary(ListDirResponseSchema, create(ListDirResponseSchema, { entries: [entry] }));
  }
}

async function* inPieces(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  let [held, bytes]: [Uint8Array[], number] = [[], 0];
  for await (const part of parts) {
    held.push(part);
    bytes += part.length;
    if (bytes < PIECE_BYTES) continue;
    yield Buffer.concat(held);
    [held, bytes] = [[], 0];
  }
  yield Buffer.concat(held);
}

/**
 * Yields the entries of a list of `/v1` as its JSON arrives, and holds a piece of it at a time.
 *
 * @throws Error if the list breaks off
 */
export async function* entriesIn(json: AsyncIterable<Uint8Array>): AsyncGenerator<FileEntry, void> {
  const decoder = new TextDecoder();
  let text = '';
  let [at, start, depth, isInString, isEscaped] = [0, 0, 0, false, false];
  for await (const bytes of json) {
    text += decoder.decode(bytes, { stream: true });
    for (; at < text.length; at += 1) {
      const character = text.charCodeAt(at);
      if (isInString) {
        if (isEscaped) isEscaped = false;
        else if (character === BACKSLASH) isEscaped = true;
        else if (character === QUOTE) isInString = false;
      } else if (character === QUOTE) isInString = true;
      else if (OPEN.has(character)) {
        depth += 1;
        if (depth === ENTRY_DEPTH) start = at;
      } else if (CLOSE.has(character)) {
        depth -= 1;
        // Sound: the service has checked what it sends.
        if (depth === ENTRY_DEPTH - 1) yield JSON.parse(text.slice(start, at + 1)) as FileEntry;
      }
    }
    const read = depth < ENTRY_DEPTH ? at : start;
    text = text.slice(read);
    at -= read;
    start = 0;
  }
  if (depth > 0) throw new Error('The list broke off.');
}
