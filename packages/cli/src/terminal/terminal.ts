import type { Writable } from 'node:stream';
import picocolors from 'picocolors';

/** What is on the line goes, and the next text takes its place. */
export const CLEAR_LINE = '\r\u001b[2K';

export type Colors = ReturnType<typeof picocolors.createColors>;

/** Where a command writes: results to `out`, everything about them to `err`. */
export interface Terminal {
  readonly out: Output;
  readonly err: Output;
}

export interface Output {
  /** Somebody watches: lines may be drawn over. */
  readonly isTerminal: boolean;
  /** Of a terminal; 80 where nobody knows. */
  readonly columns: number;
  readonly colors: Colors;
  /** Whether what was written last ended its line. */
  readonly atLineStart: boolean;
  /** Resolves when the reader keeps up, so that a slow one slows the source and not the heap. */
  write(text: string): Promise<void>;
  line(text: string): Promise<void>;
}

/** The process's own streams, coloured only on a terminal that wants it. */
export function processTerminal(): Terminal {
  return { out: outputTo(process.stdout), err: outputTo(process.stderr) };
}

function outputTo(stream: Writable & { isTTY?: boolean; columns?: number }): Output {
  const { NO_COLOR = '', TERM } = process.env;
  const colors = picocolors.createColors(stream.isTTY === true && NO_COLOR === '' && TERM !== 'dumb');
  let atLineStart = true;
  const write = async (text: string): Promise<void> => {
    if (text === '') return;
    atLineStart = text.endsWith('\n') || text.endsWith(CLEAR_LINE);
    if (!stream.write(text)) await drained(stream);
  };
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      return stream.columns || 80;
    },
    colors,
    get atLineStart() {
      return atLineStart;
    },
    write,
    line: (text) => write(`${atLineStart ? '' : '\n'}${text}\n`),
  };
}

/** Also settles when the reader has gone, which whoever watches the stream's errors deals with. */
async function drained(stream: Writable): Promise<void> {
  if (stream.destroyed || stream.errored) return;
  const events = ['drain', 'error', 'close'];
  await new Promise<void>((resolve) => {
    const settle = () => {
      for (const name of events) stream.off(name, settle);
      resolve();
    };
    for (const name of events) stream.on(name, settle);
  });
}
