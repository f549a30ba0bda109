import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { type CommandUser, type FileEntry, LIMITS } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { NAME, textUpTo } from '../bounded-schemas.ts';
import { type BoxSession, pathOf, rightsOf, userOf } from './box-session.ts';
import { attributesField } from './entry-info.ts';

/** Files of one upload. */
const MOST_FILES = 1000;
/** Beginning of the names of headers with metadata. */
const METADATA_FIELD = 'x-metadata-';
/** With the prefixes of attributes, Linux permits 255 bytes. */
const METADATA_NAME = /^.{1,246}$/;
const PRINTABLE = /^[\x20-\x7e]*$/;

type Metadata = Readonly<Record<string, string>>;

export interface FileQuery {
  Querystring: { path?: string; username?: string; signature?: string; signature_expiration?: string };
}
const FILE_SCHEMA = {
  querystring: {
    type: 'object',
    properties: {
      path: textUpTo(LIMITS.filePathLength),
      username: NAME,
      signature: NAME,
      signature_expiration: NAME,
    },
  },
};

interface OpenedFile {
  readonly session: BoxSession;
  readonly path: string;
  readonly user: CommandUser;
}

/** @param fileName of a file in a form */
export type OpenFile = (request: FastifyRequest<FileQuery>, fileName?: string) => OpenedFile;

/** Returns the file that a request names. The path of the query comes before the name of a file in a form. */
export function fileOf(session: BoxSession, path: string | undefined, name = '', user?: string): OpenedFile {
  const given = path ?? name;
  if (given === '') throw new GatewayError(400, 'The path of the file is missing.');
  const owner = userOf(user);
  return { session, user: owner, path: pathOf(given, owner) };
}

/** Registers how files are read and written whole. `open` finds the sandbox of a request and checks its right. */
export async function fileRoutes(app: FastifyInstance, open: OpenFile): Promise<void> {
  await app.register(multipart, {
    // A client names each file of a form by its whole path.
    preservePath: true,
    isPartAFile: (name, _type, fileName) => name === 'file' || fileName !== undefined,
    // Files are passed on as they come. Fields would be kept in memory.
    limits: {
      files: MOST_FILES,
      fileSize: Number.POSITIVE_INFINITY,
      fields: 0,
      fieldSize: 0,
      parts: MOST_FILES,
      headerPairs: 32,
    },
  });
  app.addContentTypeParser('application/octet-stream', (_request, payload, done) => done(null, payload));

  app.get<FileQuery>('/files', { schema: FILE_SCHEMA }, async (request, reply) => {
    const { session, path, user } = open(request);
    const { body, sizeBytes } = await session.files.stream(path, { user: rightsOf(user) });
    reply.header('content-type', 'application/octet-stream');
    if (sizeBytes !== undefined) reply.header('content-length', sizeBytes);
    return reply.send(Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]));
  });

  app.post<FileQuery>('/files', { schema: FILE_SCHEMA }, async (request) => {
    const metadata = metadataOf(request.raw.headersDistinct);
    if (!request.isMultipart()) {
      const { session, path, user } = open(request);
      const bytes = decoded(request.body as Readable, request.headers['content-encoding']);
      return [writtenOf(await write(session, path, bytes, user, metadata), metadata)];
    }
    const written: object[] = [];
    for await (const part of filesOf(request)) {
      const { session, path, user } = open(request, part.filename);
      written.push(writtenOf(await write(session, path, part.file, user, metadata), metadata));
    }
    if (written.length === 0) throw new GatewayError(400, 'The form has no file; send at least one.');
    return written;
  });
}

/** Yields the files of a form. @throws GatewayError 400 if it is no form, FastifyError if it has too many files. */
async function* filesOf(request: FastifyRequest) {
  try {
    yield* request.files();
  } catch (error) {
    throw (error as { statusCode?: number }).statusCode === undefined ? broken(error) : error;
  }
}

/**
 * Reads the metadata of the files of an upload: a header by its name in lower case, the first one if it is repeated.
 *
 * @throws GatewayError 400
 */
function metadataOf(headers: NodeJS.Dict<string[]>): Metadata {
  const named = Object.entries(headers).filter(([name]) => name.startsWith(METADATA_FIELD));
  const metadata = named.map(([name, [value = ''] = []]) => [name.slice(METADATA_FIELD.length), value]);
  const isValid = metadata.every(([name = '', value = '']) => METADATA_NAME.test(name) && PRINTABLE.test(value));
  if (!isValid) throw new GatewayError(400, 'Metadata must have names, and printable ASCII characters as values.');
  return Object.fromEntries(metadata);
}

async function write(
  { cloche, sandboxId }: BoxSession,
  path: string,
  bytes: Readable,
  user: CommandUser,
  metadata: Metadata,
) {
  let refusal: GatewayError | undefined;
  const received = async function* (): AsyncGenerator<Uint8Array> {
    try {
      yield* bytes;
    } catch (error) {
      refusal = broken(error);
      throw refusal;
    }
  };
  const query = { path, user: rightsOf(user) };
  const headers = attributesField(metadata);
  const upload = { params: { sandboxId }, query, headers, bytes: received() };
  const { file } = await cloche.call('writeFile', upload).catch((error: unknown) => {
    throw refusal ?? error;
  });
  return file;
}

function broken(error: unknown): GatewayError {
  return new GatewayError(400, `The upload is cut off or broken: ${(error as Error).message}.`);
}

function decoded(body: Readable, encoding: string | undefined): Readable {
  if (encoding === undefined || encoding === 'identity') return body;
  if (encoding !== 'gzip') throw new GatewayError(415, `The content encoding "${encoding}" is unknown; use gzip.`);
  const unzipped = createGunzip();
  // Not by `pipeline`, which would end the connection of a client that is to get an answer.
  body.once('error', (error) => unzipped.destroy(error));
  // Fails perhaps before anything reads it. An error that nothing listens to would end the server.
  unzipped.on('error', () => body.resume());
  return body.pipe(unzipped);
}

function writtenOf({ name, type, path }: FileEntry, metadata: Metadata) {
  const shown = Object.keys(metadata).length === 0 ? {} : { metadata };
  return { name, type: type === 'directory' ? 'dir' : 'file', path, ...shown };
}
