import type { Writable } from 'node:stream';
import picocolors from 'picocolors';
import { ProgramText } from './program-text.ts';

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
  /**
   * Writes output of a program of a sandbox. SECURITY: on a terminal, only text and colours of it (program-text.test.ts);
   * elsewhere exactly what the program wrote.
   */
  program(text: string): Promise<void>;
  /** Writes such output as lines of their own. */
  programLine(text: string): Promise<void>;
  /** Takes back the colours that programs left, and forgets an unfinished sequence. */
  endProgram(): Promise<void>;
}

/** Returns the process's own streams. */
export function processTerminal(): Terminal {
  return { out: outputTo(process.stdout), err: outputTo(process.stderr) };
}

type Stream = Writable & { isTTY?: boolean; columns?: number };

/** Returns an output to a stream. @param hasColors default: on a terminal that supports them */
export function outputTo(stream: Stream, hasColors = supportsColors(stream)): Output {
  const isTerminal = stream.isTTY === true;
  const ofPrograms = new ProgramText(hasColors);
  let atLineStart = true;
  const send = async (text: string): Promise<void> => {
    if (text === '') return;
    if (!stream.write(text)) await drained(stream);
  };
  const write = async (text: string): Promise<void> => {
    if (text === '') return;
    atLineStart = text.endsWith('\n') || text.endsWith(CLEAR_LINE);
    await send(ofPrograms.end() + text);
  };
  const program = async (text: string): Promise<void> => {
    const shown = isTerminal ? ofPrograms.pass(text) : text;
    if (shown === '') return;
    atLineStart = shown.endsWith('\n');
    await send(shown);
  };
  const asLine = (text: string) => `${atLineStart ? '' : '\n'}${text}\n`;
  return {
    isTerminal,
    get columns() {
      return stream.columns || 80;
    },
    colors: picocolors.createColors(hasColors),
    get atLineStart() {
      return atLineStart;
    },
    write,
    line: (text) => write(asLine(text)),
    program,
    programLine: (text) => program(asLine(text)),
    endProgram: () => send(ofPrograms.end()),
  };
}

function supportsColors({ isTTY }: Stream): boolean {
  const { NO_COLOR = '', TERM } = process.env;
  return isTTY === true && NO_COLOR === '' && TERM !== 'dumb';
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
