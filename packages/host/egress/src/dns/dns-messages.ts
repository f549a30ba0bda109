import { RECURSION_AVAILABLE, RECURSION_DESIRED } from 'dns-packet';

const HEADER_BYTES = 12;
/** Bytes of the type and the class that follow a name. */
const TYPE_AND_CLASS_BYTES = 4;
const MAX_NAME_BYTES = 255;
const MAX_LABEL_BYTES = 63;
const OPCODE_BITS = 0x7800;
const CLASS_IN = 1;
/** IXFR, AXFR. */
const TRANSFER_TYPES = [251, 252];
const RCODES = { formatError: 1, serverFailure: 2, notImplemented: 4, refused: 5 } as const;
const RESPONSE = 0x8000;

export type Rcode = keyof typeof RCODES;

/** Returns whether a message is the response to that query, and not a stray or forged one. */
export function answersQuery(answer: Buffer, query: Buffer): boolean {
  return answer.length >= HEADER_BYTES && isResponse(answer) && answer.readUInt16BE(0) === query.readUInt16BE(0);
}

/**
 * Returns whether a message is a query. Responses are ignored, so that two programs cannot answer each other forever.
 */
export function isQuery(message: Buffer): boolean {
  return message.length >= HEADER_BYTES && !isResponse(message);
}

/**
 * Returns why a query is not passed to the resolver. Returns undefined for a query with one question of class IN that
 * requests no zone transfer.
 *
 * SECURITY: the operator's resolver sees the host's address and may trust it, so updates, notifications and transfers
 * are refused here (dns-relay.test.ts).
 */
export function refusalOf(query: Buffer): Rcode | undefined {
  if ((query.readUInt16BE(2) & OPCODE_BITS) !== 0) return 'notImplemented';
  const [questions, answers, authorities] = [4, 6, 8].map((offset) => query.readUInt16BE(offset));
  const end = questionEnd(query);
  if (questions !== 1 || answers !== 0 || authorities !== 0 || end === undefined) return 'formatError';
  const [type, klass] = [query.readUInt16BE(end - 4), query.readUInt16BE(end - 2)];
  return TRANSFER_TYPES.includes(type) || klass !== CLASS_IN ? 'refused' : undefined;
}

/** Returns an answer with the error code `rcode` and, if the question can be parsed, the question. */
export function failure(query: Buffer, rcode: Rcode): Buffer {
  const end = questionEnd(query);
  const answer = Buffer.alloc(end ?? HEADER_BYTES);
  query.copy(answer, 0, 0, answer.length);
  const kept = query.readUInt16BE(2) & (OPCODE_BITS | RECURSION_DESIRED);
  answer.writeUInt16BE(RESPONSE | kept | RECURSION_AVAILABLE | RCODES[rcode], 2);
  answer.writeUInt16BE(end === undefined ? 0 : 1, 4);
  answer.fill(0, 6, HEADER_BYTES);
  return answer;
}

/** Returns where the first question ends. Undefined for one that is truncated, compressed, or has too long a name. */
function questionEnd(query: Buffer): number | undefined {
  let at = HEADER_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    at += 1 + length;
    if (length > MAX_LABEL_BYTES || at - HEADER_BYTES > MAX_NAME_BYTES) return undefined;
  }
  const end = at + 1 + TYPE_AND_CLASS_BYTES;
  return end <= query.length && query.readUInt16BE(4) > 0 ? end : undefined;
}

function isResponse(message: Buffer): boolean {
  return ((message[2] ?? 0) & 0x80) !== 0;
}
