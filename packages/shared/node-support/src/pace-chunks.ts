import type { Readable } from 'node:stream';
import type { TurnBudget } from './turn-budget.ts';

/** Most chunks of one connection that are parsed in one turn of the event loop. */
const CHUNKS = 128;
/** Bytes of a chunk of one byte. */
const LEAST_BYTES = 6;

/** Functions that end the pacing of a connection. */
const paced = new WeakMap<Readable, () => void>();

/**
 * Gives the HTTP parser of a connection at most `CHUNKS` chunks of a body in one turn of the event loop; further ones
 * wait for the budget. A read of 64 KiB holds ten thousand chunks of one byte, which a parser handles at once. Call it
 * before anything has been received. Changes nothing if the connection is paced already.
 */
export function paceChunks(connection: Readable, budget: TurnBudget): void {
  if (paced.has(connection)) return;
  const push = connection.push.bind(connection);
  const read = connection.read.bind(connection);
  const receive = connection._read.bind(connection);
  /** Pieces that were received and are not parsed yet. */
  const rest: (Buffer | null)[] = [];
  let isDue = false;

  const release = () => {
    isDue = false;
    if (rest.length > 0 && !connection.destroyed) pass();
  };
  const continueSoon = () => {
    if (rest.length === 0 || isDue || connection.readableLength > 0) return;
    isDue = true;
    setImmediate(() => budget.spend(CHUNKS, release));
  };
  const pass = (): boolean => {
    const first = rest.shift() ?? null;
    const end = first === null ? 0 : endOfChunks(first);
    const isWhole = first === null || end === first.length;
    if (!isWhole) rest.unshift(first.subarray(end));
    const goesOn = push(isWhole ? first : first.subarray(0, end));
    continueSoon();
    return goesOn && rest.length === 0;
  };

  connection.push = (piece: Buffer | null) => {
    rest.push(piece);
    return rest.length === 1 && pass();
  };
  connection.read = (size?: number) => {
    const taken = read(size);
    continueSoon();
    return taken;
  };
  // Nothing more is received while something waits.
  connection._read = (size) => {
    if (rest.length === 0) receive(size);
  };
  paced.set(connection, () => {
    Object.assign(connection, { push, read, _read: receive });
    for (const piece of rest.splice(0)) push(piece);
  });
}

/** Passes on what waits, and paces no more: the connection leaves HTTP, or its body is read in another way. */
export function endPacing(connection: Readable): void {
  paced.get(connection)?.();
  paced.delete(connection);
}

/** Returns where the chunks end that may be parsed at once. Two line ends belong to each chunk. */
function endOfChunks(piece: Buffer): number {
  if (piece.length <= CHUNKS * LEAST_BYTES) return piece.length;
  let end = 0;
  for (let lines = 0; lines < 2 * CHUNKS; lines += 1) {
    const at = piece.indexOf('\r\n', end);
    if (at < 0) return piece.length;
    end = at + 2;
  }
  return end;
}
