import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import { GatewayError, loopbackClient } from '@cloche/kit';
import { KeyedQueue } from '@cloche/node-support';
import type { Cloche } from '@cloche/sdk';
import type { Upload } from './upload-token.ts';

const MEBIBYTE = 1024 * 1024;
/** Most bytes of one upload. */
export const UPLOAD_BYTES = 1024 * MEBIBYTE;
/** Files up to this size fit the disk that every sandbox has by default. */
const ORDINARY_BYTES = 256 * MEBIBYTE;
/** Share of a disk that its file system needs itself, and more. */
const RESERVE = 1.1;
/** Time for one upload, as E2B's clients have it. */
const UPLOAD_MS = 3_600_000;
const PATH = '/tmp/files.tar';

/** Stores the files of templates as artifacts of the client, by way of sandboxes without a network. */
export class TemplateFiles {
  readonly #apiUrl: () => string;
  /** By key: a client that sends all files of a template at once takes up one sandbox. */
  readonly #uploads = new KeyedQueue<string>();

  constructor(apiUrl: () => string) {
    this.#apiUrl = apiUrl;
  }

  /** Finds the artifact of files that have been uploaded. The newest counts. */
  async find(cloche: Cloche, hash: string): Promise<string | undefined> {
    const { data } = await cloche.call('listArtifacts', { query: { name: nameOf(hash), limit: 1 } });
    return data[0]?.id;
  }

  /** @throws ClocheError as `/v1` refuses the sandbox, the file or the artifact. */
  store(
    { apiKey, hash }: Upload,
    body: Readable,
    { sizeBytes, fields }: { readonly sizeBytes: number; readonly fields: IncomingHttpHeaders },
  ): Promise<void> {
    const cloche = loopbackClient(this.#apiUrl(), apiKey, fields);
    return this.#uploads.run(apiKey, async () => {
      if (body.destroyed) throw new GatewayError(400, 'The upload was cut off.');
      const diskMb = Math.ceil((sizeBytes * RESERVE) / MEBIBYTE) + 64;
      await using sandbox = await cloche.sandboxes.create({
        ttlMs: UPLOAD_MS,
        networkPolicy: { mode: 'deny-all' },
        metadata: { purpose: 'template-build' },
        ...(sizeBytes > ORDINARY_BYTES && { resources: { diskMb } }),
      });
      await sandbox.files.write(PATH, body, { timeoutMs: UPLOAD_MS });
      await sandbox.artifacts.export(PATH, { name: nameOf(hash), metadata: { purpose: 'template-build' } });
    });
  }
}

function nameOf(hash: string): string {
  return `e2b-copy-${hash}.tar`;
}
