import type { Writable } from 'node:stream';
import picocolors from 'picocolors';

/** Clears the current line and moves the cursor to its start. */
export const CLEAR_LINE = '\r\u001b[2K';

export type Colors = ReturnType<typeof picocolors.createColors>;

/** Output of a command: results go to `out`, messages about them to `err`. */
export interface Terminal {
  readonly out: Output;
  readonly err: Output;
}

export interface Output {
  /** Whether lines may be redrawn. */
  readonly isTerminal: boolean;
  /** Width of the terminal; 80 if unknown. */
  readonly columns: number;
  readonly colors: Colors;
  /** Whether the last write ended its line. */
  readonly atLineStart: boolean;
  /** Resolves when the reader keeps up, so that a slow reader slows the source instead of filling memory. */
  write(text: string): Promise<void>;
  line(text: string): Promise<void>;
}

/** Returns the process's own streams; coloured only on a terminal that supports it. */
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

/** Resolves when the stream can take more. Also resolves if it fails or closes, which its error listeners handle. */
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
