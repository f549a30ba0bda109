import { ClocheError, readErrorBody } from './cloche-error.ts';
import type { PreparedRequest } from './request.ts';
import { readRetryAfter } from './retry.ts';

/**
 * Responses by their bodies, for as long as a body is in use. Node cancels the body of a response that is garbage
 * collected before the body is read, and a canceled stream looks like one that has ended: what is read then is empty.
 */
const responses = new WeakMap<ReadableStream<Uint8Array>, Response>();

/** Returns the body of a response, and keeps the response with it. */
function bodyOf(response: Response): ReadableStream<Uint8Array> | null {
  const { body } = response;
  if (body) responses.set(body, response);
  return body;
}

/** Returns the JSON body of a successful response. @throws {ClocheError} the error that a failing response reports */
export async function readJson(response: Response, request: PreparedRequest): Promise<unknown> {
  const body = parseJson(await response.text());
  if (response.ok && body !== undefined) return body;
  throw failure(response, body, request);
}

/** Returns the body of an opened event stream. @throws {ClocheError} the error that a failing response reports */
export async function readEventBody(response: Response, request: PreparedRequest): Promise<ReadableStream<Uint8Array>> {
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  const body = isStream ? bodyOf(response) : null;
  if (response.ok && body) return body;
  throw failure(response, parseJson(await response.text()), request);
}

/**
 * Returns a response whose body is bytes, not read yet. @throws {ClocheError} the error that a failing response reports
 */
export async function readBytes(response: Response, request: PreparedRequest): Promise<Response> {
  if (response.ok || response.status === 304) {
    // The caller may keep the body alone.
    bodyOf(response);
    return response;
  }
  throw failure(response, parseJson(await response.text()), request);
}

function failure(response: Response, body: unknown, { idempotencyKey, url }: PreparedRequest): ClocheError {
  const { status, headers } = response;
  const common = { status, idempotencyKey, retryAfterMs: readRetryAfter(headers.get('retry-after')) };
  const error = response.ok ? undefined : readErrorBody(body);
  if (error) {
    const { code, message, requestId, details } = error;
    return new ClocheError(code, message, { ...common, requestId, details });
  }
  const type = headers.get('content-type') ?? 'no content type';
  return new ClocheError(
    'unexpected_response',
    `${new URL(url).origin} answered ${status} with ${type}, as Cloche does not; see that the address is Cloche's.`,
    { ...common, requestId: headers.get('x-request-id') ?? undefined },
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
