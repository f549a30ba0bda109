import { Buffer } from 'node:buffer';
import type { HarnessV1NetworkSandboxSession } from '@ai-sdk/harness';
import { isClocheError, type Sandbox } from '@cloche/sdk';
import { type SandboxProcess, sandboxProcess } from './sandbox-process.ts';
import { linesOf } from './text-lines.ts';

/** The access of tools to a sandbox: files and commands. The AI SDK calls it `Experimental_SandboxSession`. */
export type SandboxSession = ReturnType<HarnessV1NetworkSandboxSession['restricted']>;

type Options<Method extends 'run' | 'readTextFile' | 'readFile' | 'writeFile' | 'writeTextFile' | 'writeBinaryFile'> =
  Parameters<SandboxSession[Method]>[0];

/** The longest time that the service allows, because the AI SDK has no limit of its own. */
const LONGEST_MS = 3_600_000;

/** Files and commands of one sandbox, whose lifetime is up to the caller. */
export class ClocheSandboxSession implements SandboxSession {
  readonly #sandbox: Sandbox;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  get description(): string {
    return [
      `Linux sandbox of Cloche (${this.#sandbox.id}).`,
      'Commands are lines of bash in /workspace, where relative paths begin.',
      'Files stay until the sandbox ends.',
    ].join('\n');
  }

  /** Runs a line of bash to its end. An abort kills all its processes. */
  async run({ command, workingDirectory, env, abortSignal }: Options<'run'>) {
    abortSignal?.throwIfAborted();
    // A command whose output is followed has no time limit of one response, and is killed by an abort.
    const options = { cwd: workingDirectory, env, signal: abortSignal, timeoutMs: LONGEST_MS, onStdout: ignore };
    const {
      exitCode = -1,
      stdout = '',
      stderr = '',
      truncated,
      status,
    } = await this.#sandbox.commands.run(command, options);
    const cut = Object.entries(truncated ?? {}).map(
      ([stream, bytes]) => `\ncloche: ${bytes} bytes of ${stream} are left out`,
    );
    const late = status === 'timed_out' ? ['\ncloche: the command took an hour and was ended'] : [];
    return { exitCode, stdout, stderr: [stderr, ...cut, ...late].join('') };
  }

  /** Starts a line of bash. It has no time limit besides the lifetime of the sandbox. */
  async spawn({ command, workingDirectory, env, abortSignal }: Options<'run'>): Promise<SandboxProcess> {
    abortSignal?.throwIfAborted();
    // Without the signal: a command that is started all the same must be known to be killed.
    const started = await this.#sandbox.commands.start(command, { cwd: workingDirectory, env });
    return sandboxProcess(started, abortSignal);
  }

  async readFile({ path, abortSignal }: Options<'readFile'>): Promise<ReadableStream<Uint8Array> | null> {
    abortSignal?.throwIfAborted();
    return orNull(async () => (await this.#sandbox.files.stream(path, { signal: abortSignal })).body);
  }

  async readBinaryFile({ path, abortSignal }: Options<'readFile'>): Promise<Uint8Array | null> {
    abortSignal?.throwIfAborted();
    return orNull(() => this.#sandbox.files.read(path, { signal: abortSignal }));
  }

  async readTextFile({ encoding, startLine, endLine, ...file }: Options<'readTextFile'>): Promise<string | null> {
    const bytes = await this.readBinaryFile(file);
    if (bytes === null) return null;
    return linesOf(Buffer.from(bytes).toString(encoding as BufferEncoding | undefined), startLine, endLine);
  }

  /** Creates or replaces a file once all bytes have arrived. Creates missing directories. */
  async writeFile(options: Options<'writeFile'>): Promise<void> {
    await this.#write(options);
  }

  async writeBinaryFile(options: Options<'writeBinaryFile'>): Promise<void> {
    await this.#write(options);
  }

  async writeTextFile({ encoding, content, ...file }: Options<'writeTextFile'>): Promise<void> {
    await this.#write({ ...file, content: Buffer.from(content, encoding as BufferEncoding | undefined) });
  }

  async #write({ path, content, abortSignal }: Options<'writeFile' | 'writeBinaryFile'>): Promise<void> {
    abortSignal?.throwIfAborted();
    await this.#sandbox.files.write(path, content, { signal: abortSignal });
  }
}

function ignore(): void {}

/** Returns null if the file does not exist. A missing sandbox is an error. */
async function orNull<Content>(read: () => Promise<Content>): Promise<Content | null> {
  try {
    return await read();
  } catch (error) {
    if (isClocheError(error, 'not_found') && error.details?.resource !== 'sandbox') return null;
    throw error;
  }
}
