import { createReadStream } from 'node:fs';
import { pipeline, type Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { type ArtifactStore, ContentMissingError, StoreError } from './artifact-store.ts';
import { DigestCheck } from './digest-check.ts';

const MEBIBYTE = 2 ** 20;
export interface S3Sizes {
  /** Maximum size of one PUT request; S3 accepts up to 5 GiB. */
  readonly oneRequestBytes: number;
  /** Part size for larger contents. S3 accepts at most 10,000 parts. Two parts at a time are held in memory. */
  readonly partBytes: number;
}
const SIZES: S3Sizes = { oneRequestBytes: 5 * 1024 * MEBIBYTE, partBytes: 64 * MEBIBYTE };
const CONNECT_MS = 5_000;
/** Longest time without any data before a connection is closed. */
const STALL_MS = 60_000;
const DIGEST = /[0-9a-f]{64}$/;

export interface S3Location {
  readonly bucket: string;
  /** Is empty, or ends with a slash. */
  readonly prefix: string;
  /** Undefined means Amazon's own endpoint for the region. */
  readonly endpoint: string | undefined;
  readonly region: string;
}

/** Parses `s3://bucket/prefix?endpoint=https://host&region=name`. */
export function readS3Url(url: string): S3Location {
  const { hostname, pathname, searchParams } = new URL(url);
  const path = pathname.replace(/^\/+|\/+$/g, '');
  return {
    bucket: hostname,
    prefix: path === '' ? '' : `${path}/`,
    endpoint: searchParams.get('endpoint') ?? undefined,
    region: searchParams.get('region') ?? 'us-east-1',
  };
}

/** Stores contents in an S3-compatible bucket. Credentials come from the standard environment variables. */
export class S3Store implements ArtifactStore {
  readonly #client: S3Client;
  readonly #location: S3Location;
  readonly #sizes: S3Sizes;

  constructor(location: S3Location, sizes: S3Sizes = SIZES) {
    this.#location = location;
    this.#sizes = sizes;
    this.#client = new S3Client({
      region: location.region,
      // S3-compatible services seldom have a host name for each bucket.
      ...(location.endpoint === undefined ? {} : { endpoint: location.endpoint, forcePathStyle: true }),
      requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: STALL_MS },
    });
  }

  /**
   * Sends the digest with the content, so that the bucket refuses different bytes. A very large content is sent in
   * parts with their own digests; the upload completes only if the whole content has its digest.
   */
  async put(file: string, { sha256, sizeBytes }: { sha256: string; sizeBytes: number }): Promise<void> {
    const body = createReadStream(file, { highWaterMark: MEBIBYTE });
    const object = this.#objectOf(sha256);
    const { oneRequestBytes, partBytes } = this.#sizes;
    try {
      if (sizeBytes <= oneRequestBytes) {
        const checksum = Buffer.from(sha256, 'hex').toString('base64');
        const whole = { ...object, Body: body, ContentLength: sizeBytes, ChecksumSHA256: checksum };
        await this.#client.send(new PutObjectCommand(whole));
      } else {
        const Body = pipeline(body, new DigestCheck(sha256, sizeBytes), () => undefined);
        const params = { ...object, Body, ChecksumAlgorithm: 'SHA256' } as const;
        await new Upload({ client: this.#client, params, partSize: partBytes, queueSize: 2 }).done();
      }
    } catch (error) {
      throw new StoreError('the bucket did not take a content', { cause: error });
    } finally {
      body.destroy();
    }
  }

  async has(sha256: string): Promise<boolean> {
    try {
      await this.#client.send(new HeadObjectCommand(this.#objectOf(sha256)));
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw new StoreError('the bucket does not answer', { cause: error });
    }
  }

  async read(
    sha256: string,
    range: { start: number; end: number } | undefined,
    signal: AbortSignal,
  ): Promise<Readable> {
    const part = range ? { Range: `bytes=${range.start}-${range.end}` } : {};
    const command = new GetObjectCommand({ ...this.#objectOf(sha256), ...part });
    try {
      const { Body } = await this.#client.send(command, { abortSignal: signal });
      // In Node.js the body is a Node.js stream.
      return Body as Readable;
    } catch (error) {
      if (isMissing(error)) throw new ContentMissingError(sha256, { cause: error });
      throw new StoreError('the bucket does not answer', { cause: error });
    }
  }

  async remove(sha256: string): Promise<void> {
    try {
      await this.#client.send(new DeleteObjectCommand(this.#objectOf(sha256)));
    } catch (error) {
      if (!isMissing(error)) throw new StoreError('the bucket does not answer', { cause: error });
    }
  }

  async *list(): AsyncGenerator<{ sha256: string; storedAt: number }> {
    const { bucket, prefix } = this.#location;
    let after: string | undefined;
    do {
      const page = { Bucket: bucket, Prefix: prefix, ...(after === undefined ? {} : { ContinuationToken: after }) };
      const { Contents = [], NextContinuationToken } = await this.#client.send(new ListObjectsV2Command(page));
      for (const { Key = '', LastModified } of Contents) {
        const sha256 = DIGEST.exec(Key)?.[0];
        if (sha256 !== undefined) yield { sha256, storedAt: LastModified?.getTime() ?? Date.now() };
      }
      after = NextContinuationToken;
    } while (after !== undefined);
  }

  async close(): Promise<void> {
    this.#client.destroy();
  }

  #objectOf(sha256: string): { Bucket: string; Key: string } {
    const { bucket, prefix } = this.#location;
    return { Bucket: bucket, Key: `${prefix}${sha256}` };
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof S3ServiceException && error.$metadata.httpStatusCode === 404;
}
