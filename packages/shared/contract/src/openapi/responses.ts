import type { TSchema } from 'typebox';
import { ERRORS, ErrorBody, type ErrorCode } from '../errors.ts';
import type { Operation } from '../operation.ts';
import { errorsOf } from '../operations/errors-of.ts';
import { type Components, type Json, refer } from './components.ts';
import { describeStream, SSE_TYPE } from './frames.ts';
import { errorHeaders, successHeaders } from './headers.ts';

export function describeResponses(operation: Operation, components: Components): Json {
  const { response, download, webSocket } = operation;
  const isRanged = download?.also !== undefined && 206 in download.also;
  const content = describeContent(operation, components);
  return {
    [response.status]: {
      description: response.description,
      headers: successHeaders(operation, isRanged ? ['ETag', 'Accept-Ranges'] : []),
      ...(webSocket ? {} : { content }),
    },
    ...Object.fromEntries(
      Object.entries(download?.also ?? {}).map(([status, description]) => [
        status,
        status === '206'
          ? { description, headers: successHeaders(operation, ['ETag', 'Content-Range']), content }
          : { description, headers: successHeaders(operation, ['ETag']) },
      ]),
    ),
    ...errorResponses(operation, components),
  };
}

function describeContent(operation: Operation, components: Components): Json {
  const { response, events, download } = operation;
  if (events)
    return { [SSE_TYPE]: describeStream({ ...operation, events } as Operation & { events: TSchema }, components) };
  if (download) return bytes(download.contentTypes);
  return { 'application/json': { schema: refer(response.schema, components) } };
}

/** OpenAPI 3.1 describes bytes by a media type without a schema. */
export function bytes(contentTypes: readonly string[]): Json {
  return Object.fromEntries(contentTypes.map((type) => [type, {}]));
}

/** Returns one response per status. Its description lists the codes that share the status. */
function errorResponses(operation: Operation, components: Components): Json {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of errorsOf(operation)) {
    const { status } = ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const schema = refer(ErrorBody, components);
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      String(status),
      {
        description: codes.map((code) => `\`${code}\`: ${ERRORS[code].summary}`).join('\n\n'),
        headers: errorHeaders(codes),
        content: { 'application/json': { schema } },
      },
    ]),
  );
}

/**
 * Returns the error catalogue: what each code means, whether to repeat the request, and the schema of its `details`.
 */
export function errorCatalogue(components: Components): Json {
  return Object.fromEntries(
    Object.entries(ERRORS).map(([code, { status, retryable, details, summary }]) => [
      code,
      { status, retryable, summary, ...(details && { details: refer(details, components) }) },
    ]),
  );
}
