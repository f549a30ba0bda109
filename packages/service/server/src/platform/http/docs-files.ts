import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';

const FOLDER = new URL('static/', import.meta.resolve('@fastify/swagger-ui'));
/** Files that the plugin serves in another form. */
const MADE: ReadonlySet<string> = new Set(['index.html', 'swagger-initializer.js']);
/** Types by the ends of names. Others are not served. */
const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
};
const SECONDS_IN_BROWSERS = 3600;

/**
 * Serves the files of the pages at `/docs/static` from memory, each from the first request for it on. The plugin would
 * open a descriptor for each answer, also for those that wait because their client does not read.
 */
export async function addDocsFiles(app: FastifyInstance, policy: string): Promise<void> {
  for (const name of await readdir(fileURLToPath(FOLDER))) {
    const type = TYPES[name.slice(name.lastIndexOf('.') + 1)];
    if (type === undefined || MADE.has(name)) continue;
    const read = once(() => readFile(new URL(name, FOLDER)));
    app.get(`/docs/static/${name}`, async (_request, reply) => {
      const bytes = await read();
      reply.headers({ 'cache-control': `max-age=${SECONDS_IN_BROWSERS}`, 'content-security-policy': policy });
      return reply.type(type).send(bytes);
    });
  }
}

/** Returns a function that reads until one reading has succeeded, whose result it then returns. */
function once<T>(read: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= read().catch((error: unknown) => {
      result = undefined;
      throw error;
    });
    return result;
  };
}
