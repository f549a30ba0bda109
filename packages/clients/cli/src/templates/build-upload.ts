import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Cloche, Sandbox } from '@cloche/sdk';
import { madeDespite, TAKING_BACK } from '../interruption.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { TransferBar } from '../terminal/transfer-bar.ts';

const TTL_MS = 3_600_000;
const MEBIBYTE = 1024 * 1024;
/** Files up to this size fit the disk that every sandbox has by default. */
const ORDINARY_BYTES = 256 * MEBIBYTE;
/** Share of a disk that its file system needs itself, and more. */
const RESERVE = 1.1;

/**
 * Stores files for a build as artifacts, by way of sandboxes without a network. Disposing deletes all of them: the
 * build keeps what it has read.
 */
export class BuildUpload implements AsyncDisposable {
  readonly #cloche: Cloche;
  readonly #terminal: Terminal;
  readonly #signal: AbortSignal;
  readonly #artifactIds: string[] = [];
  #shared: Sandbox | undefined;
  #stored = 0;

  constructor(cloche: Cloche, terminal: Terminal, signal: AbortSignal) {
    this.#cloche = cloche;
    this.#terminal = terminal;
    this.#signal = signal;
  }

  /** Stores what is packed meanwhile. Returns the id of the artifact. */
  async store(archive: AsyncIterable<Uint8Array>, title: string): Promise<string> {
    this.#shared ??= await this.#sandbox();
    return this.#storeIn(this.#shared, archive, title);
  }

  /** Stores a file, in a sandbox whose disk has room for it. Returns the id of the artifact. */
  async storeFile(file: string): Promise<string> {
    const { size } = await stat(file);
    const isLarge = size > ORDINARY_BYTES;
    await using sandbox = await this.#sandbox(isLarge ? Math.ceil((size * RESERVE) / MEBIBYTE) + 64 : undefined);
    const content = createReadStream(file);
    // Its reader learns of an error, also of one before it reads.
    content.on('error', () => undefined);
    return await this.#storeIn(sandbox, content, basename(file), size);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const calls = this.#signal.aborted ? TAKING_BACK : {};
    const ended = await Promise.allSettled([
      this.#shared?.kill(calls),
      ...this.#artifactIds.map((id) => this.#cloche.artifacts.delete(id, calls)),
    ]);
    const failed = ended.find((end) => end.status === 'rejected');
    if (failed) throw failed.reason;
  }

  /** Does not take the signal: an aborted creation could leave a sandbox whose id is unknown. */
  #sandbox(diskMb?: number): Promise<Sandbox> {
    const body = {
      ttlMs: TTL_MS,
      networkPolicy: { mode: 'deny-all' as const },
      metadata: { purpose: 'template-build' },
      ...(diskMb !== undefined && { resources: { diskMb } }),
    };
    return madeDespite(this.#signal, this.#cloche.sandboxes.create(body));
  }

  async #storeIn(sandbox: Sandbox, bytes: AsyncIterable<Uint8Array>, title: string, size?: number): Promise<string> {
    const signal = this.#signal;
    const path = `/tmp/upload-${++this.#stored}`;
    await sandbox.files.write(path, new TransferBar(this.#terminal.err, title).count(bytes, size), { signal });
    // Without the signal, so that the id of what is stored is known.
    const artifact = await madeDespite(signal, sandbox.artifacts.export(path));
    this.#artifactIds.push(artifact.id);
    signal.throwIfAborted();
    return artifact.id;
  }
}
