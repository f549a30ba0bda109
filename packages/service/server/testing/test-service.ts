/** A service with routes of a test's own, on a real socket. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { HostWarning } from '@cloche/contract';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { systemClock } from '../src/platform/base/clock.ts';
import { DiskSpace, FRESH_MS } from '../src/platform/base/disk-space.ts';
import { randomIds } from '../src/platform/base/id-source.ts';
import { ResultMemoryLimit } from '../src/platform/base/result-memory.ts';
import { type AppDeps, buildApp } from '../src/platform/http/app.ts';
import { InFlight } from '../src/platform/http/in-flight.ts';
import { ListCursors } from '../src/platform/http/list-cursors.ts';
import type { Route } from '../src/platform/http/route.ts';
import { Idempotency } from '../src/platform/idempotency/idempotency.ts';
import { IdempotencyRepository } from '../src/platform/idempotency/idempotency-repository.ts';
import { ResultFiles } from '../src/platform/idempotency/result-files.ts';
import { SqlApiKeyRepository } from '../src/platform/keys/api-key-repository.ts';
import { Authenticator } from '../src/platform/keys/authenticator.ts';
import { OrgRepository } from '../src/platform/tenancy/org-repository.ts';
import { apiKeyServiceOf } from './api-key-service.ts';
import { type ApiAnswer, type ApiCall, callApi } from './call-api.ts';
import { openTestDatabase } from './test-database.ts';

export interface TestService {
  readonly url: string;
  readonly inFlight: InFlight;
  /** Folder of the files of large results. */
  readonly resultsFolder: string;
  /** Log lines, parsed. */
  readonly lines: readonly Record<string, unknown>[];
  key(scopes?: readonly string[]): Promise<string>;
  call(method: string, path: string, options?: ApiCall): Promise<ApiAnswer>;
  /** Sends bytes as they are and answers all that comes back until the connection ends. */
  raw(bytes: string | Buffer, options?: { halfClose?: boolean }): Promise<string>;
  failCheck(error: Error | undefined): void;
  /** Sets the warnings of the check. */
  warn(warnings: readonly HostWarning[]): void;
  /** Leaves so many bytes free on the disk of the service; undefined stands for any number. */
  leaveFree(bytes: number | undefined): void;
  close(): Promise<void>;
}

export async function startTestService(
  routes: readonly Route[],
  signed: Pick<AppDeps, 'signedDownloads' | 'signedUploads'> = {},
): Promise<TestService> {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => lines.push(JSON.parse(line)) });
  const db = await openTestDatabase();
  const org = await new OrgRepository(db, systemClock, randomIds).ensureFirst();
  await db.insertInto('server_leases').values({ id: 'srv_test', lease_until: Number.MAX_SAFE_INTEGER }).execute();
  const keys = new SqlApiKeyRepository(db);
  const authenticator = new Authenticator(keys, systemClock);
  const service = apiKeyServiceOf(db, { keys, authenticator, clock: systemClock });
  const inFlight = new InFlight();
  const folder = mkdtempSync(join(tmpdir(), 'cloche-results-'));
  const files = new ResultFiles(folder, systemClock, randomIds);
  let freeBytes: number | undefined;
  const read = async () => ({ freeBytes: freeBytes ?? Number.MAX_SAFE_INTEGER, totalBytes: Number.MAX_SAFE_INTEGER });
  let at = 0;
  // Each look has a time of its own, so that the space is read anew.
  const space = new DiskSpace(folder, { clock: { now: () => (at += FRESH_MS) }, log, read });
  let closed: Promise<void> | undefined;
  let checkError: Error | undefined;
  let warnings: readonly HostWarning[] = [];
  const app = await buildApp({
    ...signed,
    routes,
    authenticator,
    idempotency: new Idempotency(new IdempotencyRepository(db), 'srv_test', systemClock, randomIds, { files }),
    inFlight,
    transfers: { stallMs: 60_000 },
    resultMemoryLimit: new ResultMemoryLimit(),
    space,
    cursors: new ListCursors(Buffer.alloc(32)),
    metrics: new Registry(),
    clock: systemClock,
    ids: randomIds,
    log,
    version: '0.0.0',
    check: async () => {
      if (checkError) throw checkError;
      return warnings;
    },
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const key = async (scopes: readonly string[] = ['*']) =>
    (await service.create({ orgId: org.id, name: 'test', scopes })).secret;
  const everything = await key();

  return {
    url,
    inFlight,
    resultsFolder: folder,
    lines,
    key,
    failCheck: (error) => {
      checkError = error;
    },
    warn: (of) => {
      warnings = of;
    },
    leaveFree: (bytes) => {
      freeBytes = bytes;
    },
    call: (method, path, options = {}) => callApi(url + path, method, { key: everything, ...options }),
    raw: (bytes, options) => raw(Number(new URL(url).port), bytes, options),
    close: () => {
      closed ??= app.close().then(() => {
        rmSync(folder, { recursive: true });
        return db.destroy();
      });
      return closed;
    },
  };
}

async function raw(port: number, bytes: string | Buffer, { halfClose = false } = {}): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => undefined);
  socket.write(bytes);
  if (halfClose) socket.end();
  await once(socket, 'close');
  return text;
}
