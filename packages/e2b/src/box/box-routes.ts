import { PassThrough, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { FileEntry } from '@cloche/contract';
import { fastifyConnectPlugin } from '@connectrpc/connect-fastify';
import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isLive } from '../control/e2b-sandbox.ts';
import type { E2bDeps } from '../e2b-deps.ts';
import { E2bError } from '../e2b-error.ts';
import { Filesystem } from '../generated/filesystem/filesystem_pb.js';
import { Process } from '../generated/process/process_pb.js';
import { type BoxSession, basicUser, isGone, pathOf, sessionOf, userOf } from './box-session.ts';
import { filesystemService } from './filesystem-service.ts';
import { processService } from './process-service.ts';

/** Files of one upload. */
const MOST_FILES = 1000;

interface FileQuery {
  Querystring: { path?: string; username?: string };
}
const FILE_SCHEMA = {
  querystring: { type: 'object', properties: { path: { type: 'string' }, username: { type: 'string' } } },
};

/** Registers what E2B's clients call at port 49983 of a sandbox. */
export async function boxRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  await app.register(fastifyConnectPlugin, {
    routes: (router) => {
      router.service(Process, processService(deps));
      router.service(Filesystem, filesystemService(deps));
    },
  });
  app.get('/health', async (request, reply) => {
    const { cloche, sandboxId } = sessionOf(request, deps);
    const { info } = await cloche.sandboxes.get(sandboxId).catch((error: unknown) => {
      throw isGone(error) ? new E2bError(502, 'The sandbox has ended.') : error;
    });
    return reply.code(isLive(info) ? 204 : 502).send();
  });
  await app.register(async (scope) => fileRoutes(scope, deps));
}

async function fileRoutes(app: FastifyInstance, deps: E2bDeps): Promise<void> {
  // A client names each file of a form by its whole path.
  await app.register(multipart, {
    preservePath: true,
    limits: { files: MOST_FILES, fileSize: Number.POSITIVE_INFINITY },
  });
  app.addContentTypeParser('application/octet-stream', (_request, payload, done) => done(null, payload));

  app.get<FileQuery>('/files', { schema: FILE_SCHEMA }, async (request, reply) => {
    const { session, path, user } = openFile(request, deps);
    const { body, sizeBytes } = await session.files.stream(path, { user });
    reply.header('content-type', 'application/octet-stream');
    if (sizeBytes !== undefined) reply.header('content-length', sizeBytes);
    return reply.send(Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]));
  });

  app.post<FileQuery>('/files', { schema: FILE_SCHEMA }, async (request) => {
    if (!request.isMultipart()) {
      const { session, path, user } = openFile(request, deps);
      const bytes = decoded(request.body as Readable, request.headers['content-encoding']);
      return [writtenOf(await write(session, path, bytes, user))];
    }
    const written: object[] = [];
    for await (const part of request.files()) {
      const { session, path, user } = openFile(request, deps, part.filename);
      written.push(writtenOf(await write(session, path, part.file, user)));
    }
    if (written.length === 0) throw new E2bError(400, 'The form has no file; send at least one.');
    return written;
  });
}

/** The path of the query comes before the name of a file in a form. */
function openFile(request: FastifyRequest<FileQuery>, deps: E2bDeps, fileName = '') {
  const session = sessionOf(request, deps);
  const user = userOf(request.query.username ?? basicUser(request.headers.authorization));
  const given = request.query.path ?? fileName;
  if (given === '') throw new E2bError(400, 'The path of the file is missing.');
  return { session, user, path: pathOf(given, user) };
}

async function write({ files }: BoxSession, path: string, bytes: Readable, user: ReturnType<typeof userOf>) {
  return files.write(path, Readable.toWeb(bytes) as ReadableStream<Uint8Array>, { user });
}

function decoded(body: Readable, encoding: string | undefined): Readable {
  if (encoding === undefined || encoding === 'identity') return body;
  if (encoding !== 'gzip') throw new E2bError(415, `The content encoding "${encoding}" is unknown; use gzip.`);
  const unzipped = body.pipe(createGunzip());
  body.once('error', (error) => unzipped.destroy(error));
  return unzipped.pipe(new PassThrough());
}

function writtenOf({ name, type, path }: FileEntry) {
  return { name, type: type === 'directory' ? 'dir' : 'file', path };
}
