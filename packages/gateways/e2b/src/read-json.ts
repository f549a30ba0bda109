import { GatewayError } from '@cloche/kit';
import { MAX_JSON_DEPTH, parsePlainJson } from '@cloche/node-support';
import type { FastifyInstance } from 'fastify';

/** Largest body that is read whole. */
export const BODY_BYTES = 8 * 1024 * 1024;
/** Most values and levels of the JSON of one message. */
export const JSON_BOUNDS = { values: 100_000, depth: MAX_JSON_DEPTH };

/** Reads JSON bodies. An empty one is null: the clients send it with the type of JSON. */
export function readJsonBodies(app: FastifyInstance): void {
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
    try {
      done(null, text === '' ? null : parsePlainJson(String(text), JSON_BOUNDS.values));
    } catch {
      done(new GatewayError(400, 'The body is not valid JSON, or has too many values.'));
    }
  });
}
