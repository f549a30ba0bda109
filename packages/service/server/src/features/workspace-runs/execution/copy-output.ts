import type { AgentCommand, AgentCommandEvent, AgentLogEntry } from '@cloche/protocol';
import {
  ENTRY_OVERHEAD_BYTES,
  type NewLogEntry,
  type SequenceLog,
} from '../../../platform/sequence-log/sequence-log.ts';

/** Entries and bytes written in one transaction, which other queries wait for. One entry has at most 64 KiB. */
const PART_ENTRIES = 64;
const PART_BYTES = 256 * 1024;
/** Most output that waits to be written. Beyond this, no more is read from the agent. */
const MAX_WAITING_BYTES = 1024 * 1024;

/**
 * Copies the output of a command into a log. Returns the command when it has ended and all of its output is written.
 * Output that arrives while a part is being written is written together, so that fast output takes few transactions.
 *
 * @param after number of the agent's last entry that the log has
 * @throws Error when another server has written a part meanwhile; the copy must then continue from the end of the log
 */
export async function copyOutput(
  events: AsyncIterable<AgentCommandEvent>,
  log: SequenceLog,
  { id, after }: { readonly id: string; readonly after: number },
): Promise<AgentCommand> {
  const waiting: AgentLogEntry[] = [];
  let waitingBytes = 0;
  let copied = after;
  let writing: Promise<void> | undefined;
  const write = async () => {
    for (let part = takePart(waiting); part.length > 0; part = takePart(waiting)) {
      const upTo = part.at(-1)?.seq ?? copied;
      const entries = part.map(toLogEntry);
      waitingBytes -= part.reduce((bytes, entry) => bytes + sizeOf(entry), 0);
      if (!(await log.append(id, entries, { source: { after: copied, upTo } }))) {
        throw new Error(`another server has copied a part of the output of ${id}`);
      }
      copied = upTo;
    }
  };
  const begin = () => {
    const begun = write().finally(() => {
      writing = undefined;
    });
    // The next wait for it, at the latest the one at the end, reports its error.
    begun.catch(() => undefined);
    writing = begun;
    return begun;
  };
  let failure: unknown;
  for await (const event of events) {
    if (event.type === 'exit') {
      await writing;
      await begin();
      return event.command;
    }
    waiting.push(event.entry);
    waitingBytes += sizeOf(event.entry);
    if (!writing) begin().catch((error) => (failure ??= error));
    if (waitingBytes > MAX_WAITING_BYTES) await writing;
    if (failure) throw failure;
  }
  throw new Error('the events of a command ended before the command');
}

function takePart(waiting: AgentLogEntry[]): AgentLogEntry[] {
  let bytes = 0;
  const beyond = waiting.findIndex((entry, index) => {
    bytes += sizeOf(entry);
    return index === PART_ENTRIES || (index > 0 && bytes > PART_BYTES);
  });
  return waiting.splice(0, beyond === -1 ? waiting.length : beyond);
}

function sizeOf({ data }: AgentLogEntry): number {
  return Buffer.byteLength(data) + ENTRY_OVERHEAD_BYTES;
}

/** The agent's `system` entries count as output too: only the server's own are kept for ever. */
function toLogEntry({ stream, data }: AgentLogEntry): NewLogEntry {
  return { type: stream, data, outputBytes: Buffer.byteLength(data) };
}
