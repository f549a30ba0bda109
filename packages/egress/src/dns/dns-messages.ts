import { decode, encode, RECURSION_AVAILABLE, RECURSION_DESIRED } from 'dns-packet';

const HEADER_BYTES = 12;
const RCODE_SERVFAIL = 2;

/** Whether an answer is one to that query and not a stray or forged one. */
export function answersQuery(answer: Buffer, query: Buffer): boolean {
  return answer.length >= HEADER_BYTES && isResponse(answer) && answer.readUInt16BE(0) === query.readUInt16BE(0);
}

/** Whether a message has the form of a query; its content is the upstream's to read. */
export function isQuery(message: Buffer): boolean {
  return message.length >= HEADER_BYTES && !isResponse(message);
}

/** Tells the asker that there is no answer to be had now. Undefined for a query that cannot be read. */
export function serverFailure(query: Buffer): Buffer | undefined {
  try {
    const { id, questions } = decode(query);
    const flags = RECURSION_DESIRED | RECURSION_AVAILABLE | RCODE_SERVFAIL;
    return encode({ type: 'response', ...(id !== undefined && { id }), flags, ...(questions && { questions }) });
  } catch {
    return undefined;
  }
}

function isResponse(message: Buffer): boolean {
  return ((message[2] ?? 0) & 0x80) !== 0;
}
