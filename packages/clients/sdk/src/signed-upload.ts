import { ClocheError } from './cloche-error.ts';
import { type UploadBytes, uploadBody } from './request.ts';

export interface SignedUpload {
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: UploadBytes;
  readonly sizeBytes: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends bytes to a URL that the service has signed. The URL may belong to a bucket, so the API key is not sent.
 * @throws {ClocheError} `unreachable`, `unexpected_response`
 */
export async function putSigned(
  fetch: typeof globalThis.fetch,
  url: string,
  { headers, bytes, sizeBytes, signal }: SignedUpload,
): Promise<void> {
  const place = new URL(url).origin;
  const init = {
    method: 'PUT',
    // Buckets refuse a body whose size is not known in advance.
    headers: { ...headers, 'content-length': String(sizeBytes) },
    ...uploadBody(bytes),
    redirect: 'manual',
    ...(signal ? { signal } : {}),
  } as const;
  const response = await fetch(url, init).catch((cause: unknown) => {
    signal?.throwIfAborted();
    throw sourceError(cause) ?? new ClocheError('unreachable', `${place} broke the upload off; try again.`, { cause });
  });
  const text = await response.text();
  if (response.ok) return;
  const { status } = response;
  const message = `${place} refused the upload with status ${status}: ${text.slice(0, 200)}`;
  throw new ClocheError('unexpected_response', message, { status });
}

/** Returns the error of the code that produces the bytes; undefined if the connection failed. */
export function sourceError(cause: unknown): ClocheError | undefined {
  const inner = (cause as { cause?: unknown } | undefined)?.cause;
  return [cause, inner].find((error) => error instanceof ClocheError);
}
