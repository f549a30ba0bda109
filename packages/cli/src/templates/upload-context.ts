import type { Cloche, Sandbox } from '@cloche/sdk';
import type { Terminal } from '../terminal/terminal.ts';
import { TransferBar } from '../terminal/transfer-bar.ts';

const TTL_MS = 3_600_000;

/**
 * Stores files for a build as artifacts, by way of a sandbox without a network. Disposing deletes both: the build keeps
 * what it has read.
 */
export class ContextUpload implements AsyncDisposable {
  readonly #cloche: Cloche;
  readonly #terminal: Terminal;
  readonly #signal: AbortSignal;
  readonly #artifactIds: string[] = [];
  #sandbox: Sandbox | undefined;

  constructor(cloche: Cloche, terminal: Terminal, signal: AbortSignal) {
    this.#cloche = cloche;
    this.#terminal = terminal;
    this.#signal = signal;
  }

  /** Returns the id of the artifact. */
  async store(archive: AsyncIterable<Uint8Array>, title: string): Promise<string> {
    const signal = this.#signal;
    this.#sandbox ??= await this.#cloche.sandboxes.create(
      { ttlMs: TTL_MS, networkPolicy: { mode: 'deny-all' }, metadata: { purpose: 'template-build' } },
      { signal },
    );
    const path = `/tmp/context-${this.#artifactIds.length + 1}.tar.gz`;
    await this.#sandbox.files.write(path, new TransferBar(this.#terminal.err, title).count(archive), { signal });
    const artifact = await this.#sandbox.artifacts.export(path, { signal });
    this.#artifactIds.push(artifact.id);
    return artifact.id;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sandbox?.kill();
    for (const id of this.#artifactIds) await this.#cloche.artifacts.delete(id);
  }
}
