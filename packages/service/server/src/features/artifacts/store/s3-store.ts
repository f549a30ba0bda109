import { createReadStream } from 'node:fs';
import { pipeline, type Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { Deadline } from '@cloche/node-support';
import {
  type ArtifactStore,
  ContentMissingError,
  type ContentName,
  type NewContent,
  NoAnswerError,
  type PreparedRemoval,
  type SignedPut,
  StoreError,
} from './artifact-store.ts';
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
/** Time for which the signature of a removal is valid, by the clock of the bucket. */
const REMOVAL_MS = 20_000;
/** Most by which the clocks of a bucket's machines differ. */
const CLOCKS_MS = 10_000;
/**
 * A bucket that does not tell its time refuses requests that were signed more than 15 minutes ago by its own clock. The
 * signer's clock may differ from that clock by 15 minutes as well.
 */
const SIGNED_MS = 30 * 60_000;
const NAME = /^[0-9a-f]{64}$/;
const CHECKSUM_HEADER = 'x-amz-checksum-sha256';

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
  readonly asides = undefined;
  readonly #client: S3Client;
  /** Client without retries: with two requests, the first could take effect after the second was answered. */
  readonly #once: S3Client;
  readonly #location: S3Location;
  readonly #sizes: S3Sizes;

  constructor(location: S3Location, sizes: S3Sizes = SIZES) {
    this.#location = location;
    this.#sizes = sizes;
    const config: S3ClientConfig = {
      region: location.region,
      // Most S3-compatible services have no host name for each bucket.
      ...(location.endpoint === undefined ? {} : { endpoint: location.endpoint, forcePathStyle: true }),
      requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: STALL_MS },
    };
    this.#client = new S3Client(config);
    this.#once = new S3Client({ ...config, maxAttempts: 1 });
  }

  /**
   * Sends the digest with the content, so that the bucket refuses different bytes. A very large content is sent in
   * parts with their own digests; the upload completes only if the whole content has its digest.
   */
  async put(file: string, { sha256, sizeBytes, name = sha256 }: NewContent): Promise<void> {
    const body = createReadStream(file, { highWaterMark: MEBIBYTE });
    const unreadable = new AbortController();
    // Also before the client reads it.
    body.on('error', (error) => unreadable.abort(error));
    const object = this.#objectOf(name);
    const { oneRequestBytes, partBytes } = this.#sizes;
    try {
      if (sizeBytes <= oneRequestBytes) {
        const whole = { ...object, Body: body, ContentLength: sizeBytes, ChecksumSHA256: inBase64(sha256) };
        await this.#client.send(new PutObjectCommand(whole), { abortSignal: unreadable.signal });
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

  async has(name: ContentName, signal?: AbortSignal): Promise<boolean> {
    try {
      await this.#client.send(new HeadObjectCommand(this.#objectOf(name)), signal ? { abortSignal: signal } : {});
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw new StoreError('the bucket does not answer', { cause: error });
    }
  }

  async read(
    name: ContentName,
    range: { start: number; end: number } | undefined,
    signal: AbortSignal,
  ): Promise<Readable> {
    const part = range ? { Range: `bytes=${range.start}-${range.end}` } : {};
    const command = new GetObjectCommand({ ...this.#objectOf(name), ...part });
    try {
      const { Body } = await this.#client.send(command, { abortSignal: signal });
      // In Node.js the body is a Node.js stream.
      return Body as Readable;
    } catch (error) {
      if (isMissing(error)) throw new ContentMissingError(name, { cause: error });
      throw new StoreError('the bucket does not answer', { cause: error });
    }
  }

  async remove(name: ContentName): Promise<void> {
    try {
      await this.#once.send(new DeleteObjectCommand(this.#objectOf(name)));
    } catch (error) {
      if (isMissing(error)) return;
      // Below 500 the bucket itself has answered. A 5xx status may come from a proxy while the request is still under
      // way.
      if (statusOf(error) < 500) throw new StoreError('the bucket removed nothing', { cause: error });
      throw new NoAnswerError('the bucket does not answer', { cause: error });
    }
  }

  /**
   * Signs a removal by the bucket's own clock, for a short time, so that the bucket refuses the request when that is up,
   * however wrong the clock of this server is.
   */
  async prepareRemoval(name: ContentName): Promise<PreparedRemoval | undefined> {
    const look = new HeadObjectCommand(this.#objectOf(name));
    let date: string | undefined;
    const keepDate = { step: 'deserialize' } as const;
    look.middlewareStack.add(
      (next) => async (args) => {
        const result = await next(args);
        date = (result.response as { headers?: Record<string, string> }).headers?.date;
        return result;
      },
      keepDate,
    );
    try {
      await this.#client.send(look);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw new StoreError('the bucket does not answer', { cause: error });
    }
    const bucketTime = Date.parse(date ?? '');
    const tellsTime = !Number.isNaN(bucketTime);
    const url = await getSignedUrl(this.#once, new DeleteObjectCommand(this.#objectOf(name)), {
      expiresIn: REMOVAL_MS / 1000,
      ...(tellsTime && { signingDate: new Date(bucketTime) }),
    });
    return { arrivesWithinMs: tellsTime ? REMOVAL_MS + CLOCKS_MS : SIGNED_MS, send: () => sendRemoval(url) };
  }

  async *list(): AsyncGenerator<{ name: ContentName; storedAt: number }> {
    const { bucket, prefix } = this.#location;
    let after: string | undefined;
    do {
      // Without the delimiter, contents of other stores below the prefix would be listed too.
      const page = {
        Bucket: bucket,
        Prefix: prefix,
        Delimiter: '/',
        ...(after === undefined ? {} : { ContinuationToken: after }),
      };
      const { Contents = [], NextContinuationToken } = await this.#client.send(new ListObjectsV2Command(page));
      for (const { Key = '', LastModified } of Contents) {
        const name = Key.slice(prefix.length);
        if (NAME.test(name)) yield { name, storedAt: LastModified?.getTime() ?? Date.now() };
      }
      after = NextContinuationToken;
    } while (after !== undefined);
  }

  fileOf(): undefined {
    return undefined;
  }

  async signPut({ name, sha256, sizeBytes }: Required<NewContent>, expiresInMs: number): Promise<SignedPut> {
    const checksum = inBase64(sha256);
    const command = new PutObjectCommand({
      ...this.#objectOf(name),
      ContentLength: sizeBytes,
      ChecksumSHA256: checksum,
    });
    const url = await getSignedUrl(this.#client, command, {
      expiresIn: Math.floor(expiresInMs / 1000),
      // As signed headers, so that the bucket refuses another size or digest.
      unhoistableHeaders: new Set([CHECKSUM_HEADER]),
      signableHeaders: new Set(['content-length', CHECKSUM_HEADER, 'host']),
    });
    return { url, headers: { 'content-length': String(sizeBytes), [CHECKSUM_HEADER]: checksum } };
  }

  async close(): Promise<void> {
    this.#client.destroy();
    this.#once.destroy();
  }

  #objectOf(name: ContentName): { Bucket: string; Key: string } {
    const { bucket, prefix } = this.#location;
    return { Bucket: bucket, Key: `${prefix}${name}` };
  }
}

async function sendRemoval(url: string): Promise<void> {
  let status: number;
  try {
    using limit = new Deadline(REMOVAL_MS);
    const answer = await fetch(url, { method: 'DELETE', redirect: 'error', signal: limit.signal });
    status = answer.status;
    await answer.body?.cancel();
  } catch (error) {
    throw new NoAnswerError('the bucket does not answer', { cause: error });
  }
  if (status < 300 || status === 404) return;
  // A 5xx status may come from a proxy while the request is still under way.
  if (status >= 500) throw new NoAnswerError(`the bucket does not answer: ${status}`);
  throw new StoreError(`the bucket removed nothing: ${status}`);
}

function inBase64(sha256: string): string {
  return Buffer.from(sha256, 'hex').toString('base64');
}

function isMissing(error: unknown): boolean {
  return statusOf(error) === 404;
}

/** Returns infinity without an answer. */
function statusOf(error: unknown): number {
  const status = error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;
  return status ?? Number.POSITIVE_INFINITY;
}
