import type { Readable } from 'node:stream';
import { AppError } from '../../platform/base/app-error.ts';
import type { Call } from '../../platform/call/call.ts';
import type { Download } from '../../platform/http/route.ts';
import type { ArtifactRecord } from './artifact.ts';
import type { ArtifactContents } from './artifact-contents.ts';
import { StoreError } from './store/artifact-store.ts';

export interface DownloadOptions {
  /** Request headers: `range`, `if-range` and `if-none-match`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly headOnly: boolean;
}

/** Answers a download request: the whole content, a range of it, or 304 when the client's copy is current. */
export async function downloadArtifact(
  { signal }: Pick<Call, 'signal'>,
  record: ArtifactRecord,
  contents: ArtifactContents,
  { headers, headOnly }: DownloadOptions,
): Promise<Download> {
  const etag = `"${record.sha256}"`;
  const answered = { ...headersOf(record), etag, 'accept-ranges': 'bytes', 'cache-control': 'private, no-cache' };
  if (matches(headers['if-none-match'], etag)) return { status: 304, headers: answered };
  const isSame = headers['if-range'] === undefined || headers['if-range'] === etag;
  const range = isSame ? rangeOf(headers.range, record.sizeBytes) : undefined;
  const body = headOnly ? undefined : await open(record, contents, range, signal);
  if (!range) {
    return {
      status: 200,
      headers: { ...answered, 'content-length': String(record.sizeBytes) },
      ...(body && { body }),
    };
  }
  const { start, end } = range;
  const part = {
    'content-length': String(end - start + 1),
    'content-range': `bytes ${start}-${end}/${record.sizeBytes}`,
  };
  return { status: 206, headers: { ...answered, ...part }, ...(body && { body }) };
}

async function open(
  record: ArtifactRecord,
  contents: ArtifactContents,
  range: { start: number; end: number } | undefined,
  signal: AbortSignal,
): Promise<Readable> {
  try {
    return await contents.read(record, range, signal);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new AppError('unavailable', 'The artifact store does not respond; try again.', { cause: error });
  }
}

/**
 * SECURITY: a browser must save what a sandbox wrote, and never render it on the API's origin; held by
 * "is saved and never shown" in artifacts.test.ts.
 */
function headersOf({ name, contentType }: ArtifactRecord): Record<string, string> {
  const ascii = name.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(name.toWellFormed()).replace(
    /['()*!]/g,
    (one) => `%${one.charCodeAt(0).toString(16)}`,
  );
  return {
    'content-type': contentType,
    'content-disposition': `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`,
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
  };
}

function matches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  return header.trim() === '*' || header.split(',').some((each) => each.trim().replace(/^W\//, '') === etag);
}

/**
 * Returns undefined for the whole content: there is no range, several, or an invalid one.
 * @throws AppError `range_not_satisfiable`
 */
function rangeOf(header: string | undefined, sizeBytes: number): { start: number; end: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  const start = first === '' ? Math.max(0, sizeBytes - Number(last)) : Number(first);
  const end = first === '' || last === '' ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1);
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined;
  if (start <= end) return { start, end };
  throw new AppError(
    'range_not_satisfiable',
    `headers.range begins after the last byte; the artifact has ${sizeBytes} bytes`,
    {
      details: { sizeBytes },
    },
  );
}
