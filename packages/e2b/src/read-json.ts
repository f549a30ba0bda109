import type { FastifyInstance } from 'fastify';
import { E2bError } from './e2b-error.ts';

/** Reads JSON bodies. An empty one is null: the clients send it with the type of JSON. */
export function readJsonBodies(app: FastifyInstance): void {
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, text, done) => {
    try {
      done(null, text === '' ? null : JSON.parse(String(text)));
    } catch {
      done(new E2bError(400, 'The body is not valid JSON.'));
    }
  });
}
