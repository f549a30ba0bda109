import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { AgentFileErrorCode } from '@cloche/protocol';
import { type AgentFiles, FileError, type FileSource, type ReadOptions } from '@cloche/runtime';

const PATIENCE_MS = 60_000;

export function patience(): AbortSignal {
  return AbortSignal.timeout(PATIENCE_MS);
}

/** Short forms of the operations on the files of an instance, for tests. */
export class FilesSession {
  readonly #files: () => AgentFiles;

  /** @param files returns the files once they are open. */
  constructor(files: () => AgentFiles) {
    this.#files = files;
  }

  get files(): AgentFiles {
    return this.#files();
  }

  readonly put = (path: string, content: string | Buffer = path, options = {}) =>
    this.files.write(path, sourceOf(content), options, patience());

  readonly read = (path: string, options: ReadOptions = {}) => this.files.read(path, options, patience());

  readonly content = async (path: string) => text((await this.read(path)).body);

  readonly names = async (path: string, depth = 5) =>
    (await Array.fromAsync(this.files.list(path, { depth, limit: 1000 }, patience()))).map((file) => file.path);

  readonly move = (from: string, to: string, overwrite = false) => this.files.move({ from, to, overwrite }, patience());

  readonly copy = (from: string, to: string, overwrite = false) => this.files.copy({ from, to, overwrite }, patience());

  readonly remove = (path: string, recursive = true) => this.files.remove(path, { recursive }, patience());
}

export function sourceOf(content: string | Buffer): FileSource {
  return { open: () => Readable.from([Buffer.from(content)]) };
}

export async function refused(kind: AgentFileErrorCode, act: () => Promise<unknown>): Promise<void> {
  await assert.rejects(act, (error) => {
    assert.ok(error instanceof FileError, String(error));
    assert.equal(error.kind, kind, error.message);
    return true;
  });
}
