import type { Command } from '@cloche/contract';
import { bytesUpTo, orAbort, reportFailure } from '@cloche/node-support';
import { type Cloche, Commands, type FileOptions, Files, isClocheError } from '@cloche/sdk';

/** The sandbox of a program lives this much longer than the program may, in case that the service is killed. */
const SPARE_MS = 120_000;
/** Bytes of all files that one response returns. */
const FETCHED_BYTES = 8 * 1024 * 1024;
/** Characters after which no more is added to the common output of both streams. */
const OUTPUT_CHARACTERS = 1024 * 1024;
/** Files that are written at a time. */
const FILES_AT_A_TIME = 8;

export interface Program {
  /** Program and arguments. They run in `/workspace`. */
  readonly command: readonly string[];
  /** Files by their paths, which are relative to `/workspace` or absolute. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly stdin?: string | undefined;
  /** Milliseconds after which the program is ended. */
  readonly timeoutMs: number;
  /** Whether it has the network that new sandboxes have by default. Otherwise it has none. */
  readonly hasNetwork: boolean;
  /** `root` is root only inside the sandbox. */
  readonly user: 'user' | 'root';
  /** Files to return after the end. */
  readonly fetch?: readonly string[];
  /** Name of the API that runs it: a label of the sandbox. */
  readonly api: string;
}

export interface ProgramEnd {
  readonly command: Command;
  /** The beginning of standard output and error, in the order in which they were written. */
  readonly output: string;
  /** The fetched files; those that do not exist, or are no files, are left out. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** Runs programs, each in a sandbox of its own that is destroyed afterwards. */
export class ProgramRunner {
  readonly #removals = new Set<Promise<void>>();

  /** @throws {ClocheError} if the sandbox or its files are refused, or `signal` aborts */
  async run(cloche: Cloche, program: Program, signal: AbortSignal): Promise<ProgramEnd> {
    const { command, files, stdin, timeoutMs, hasNetwork, user, fetch = [], api } = program;
    const creation = cloche.sandboxes.create({
      ttlMs: timeoutMs + SPARE_MS,
      metadata: { api },
      ...(hasNetwork ? {} : { networkPolicy: { mode: 'deny-all' } }),
    });
    const sandbox = await orAbort(creation, signal).catch((error) => {
      // A client that leaves while its sandbox is created would leave the sandbox behind.
      this.#remove(async () => (await creation).kill());
      throw error;
    });
    try {
      const inSandbox = new Files(cloche, sandbox.id);
      await inTurns([...files], ([path, bytes]) => inSandbox.write(path, bytes, { user, signal }));
      let output = '';
      const onOutput = (text: string) => {
        if (output.length < OUTPUT_CHARACTERS) output += text;
      };
      const running = { user, timeoutMs, signal, onStdout: onOutput, onStderr: onOutput };
      const ended = await new Commands(cloche, sandbox.id).run([...command], {
        ...running,
        ...(stdin === undefined ? {} : { stdin }),
      });
      return { command: ended, output, files: await readAll(inSandbox, fetch, { user, signal }) };
    } finally {
      this.#remove(() => sandbox.kill());
    }
  }

  /** Waits until the sandboxes of ended programs are destroyed. */
  async close(): Promise<void> {
    await Promise.all(this.#removals);
  }

  /** Destroys a sandbox after the response. If that fails, its TTL ends it. */
  #remove(kill: () => Promise<unknown>): void {
    const removal = kill().then(
      () => undefined,
      () => undefined,
    );
    this.#removals.add(removal);
    removal.then(() => this.#removals.delete(removal)).catch(reportFailure);
  }
}

async function readAll(
  files: Files,
  paths: readonly string[],
  options: FileOptions,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const found = new Map<string, Uint8Array>();
  let left = FETCHED_BYTES;
  for (const path of paths) {
    const bytes = await readUpTo(files, path, left, options);
    if (bytes === undefined) continue;
    left -= bytes.length;
    found.set(path, bytes);
  }
  return found;
}

/** Returns the bytes of a file, or undefined if there is none that can be read or it is larger than `limit`. */
async function readUpTo(
  files: Files,
  path: string,
  limit: number,
  options: FileOptions,
): Promise<Uint8Array | undefined> {
  try {
    return await bytesUpTo(limit, (await files.stream(path, options)).body);
  } catch (error) {
    if (isClocheError(error, 'not_found', 'conflict', 'permission_denied')) return undefined;
    throw error;
  }
}

async function inTurns<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  for (let start = 0; start < items.length; start += FILES_AT_A_TIME)
    await Promise.all(items.slice(start, start + FILES_AT_A_TIME).map(work));
}
