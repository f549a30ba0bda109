/**
 * A whole server on a fake runtime with two organizations, called over real sockets. The first organization has a
 * default project and a further one, and a key that is bound to the further one alone.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { type RequestOptions, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AuditEvent, ProjectId } from '@cloche/contract';
import { FakeRuntimeDriver } from '@cloche/testkit';
import { pino } from 'pino';
import { startServer } from '../src/compose/compose.ts';
import { readConfig } from '../src/compose/config.ts';
import { type ApiAnswer, type ApiCall, callApi } from './call-api.ts';
import { SERVER_SETTINGS } from './server-settings.ts';
import { StoredRows } from './stored-rows.ts';
import { testDatabaseSettings } from './test-database.ts';

export interface Answer {
  readonly status: number;
  /** The parsed JSON, or else the text. */
  readonly body: ApiAnswer['body'];
}

export type Sending = Pick<ApiCall, 'body' | 'idempotencyKey' | 'headers'>;

export type Tenants = Awaited<ReturnType<typeof openTenants>>;

/** @param settings further settings of the server, by their variables */
export async function openTenants(settings: Readonly<Record<string, string>> = {}, log = pino({ level: 'silent' })) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-tenants-'));
  const driver = new FakeRuntimeDriver();
  const database = await testDatabaseSettings(join(folder, 'data'));
  const config = readConfig({
    ...database,
    ...SERVER_SETTINGS,
    CLOCHE_DATA_DIR: join(folder, 'data'),
    CLOCHE_RUN_DIR: join(folder, 'run'),
    ...settings,
  });
  const server = await startServer(config, log, driver);
  let organizations = 0;
  const operator = (path: string, body: unknown, method = 'POST') =>
    callOperator({ socketPath: join(folder, 'run/server/operator.sock'), path, method }, body);

  const call = async (key: string, method: string, path: string, sending: Sending = {}): Promise<Answer> => {
    const type = sending.body instanceof Uint8Array ? { 'content-type': 'application/octet-stream' } : {};
    const { status, body, text } = await callApi(server.url + path, method, {
      ...sending,
      key,
      headers: { ...type, ...sending.headers },
    });
    return { status, body: body ?? text };
  };

  const createKey = async (org: string | undefined, projectIds?: readonly string[]): Promise<string> =>
    (await operator('/keys', { ...(org && { org }), scopes: ['*'], ...(projectIds && { projectIds }) })).key.secret;
  const createProject = async (key: string, name: string): Promise<ProjectId> => {
    const { status, body } = await call(key, 'POST', '/v1/projects', { body: { name } });
    if (status !== 201) throw new Error(JSON.stringify(body));
    return body.project.id;
  };

  const whole = await createKey(undefined);
  const { org: otherOrg } = await operator('/orgs', { name: 'other' });
  const projectId = await createProject(whole, 'further');
  const { data } = (await call(whole, 'GET', '/v1/projects')).body;

  return {
    server,
    driver,
    folder,
    stored: new StoredRows(config.databaseUrl),
    operator,
    call,
    createKey,
    createProject,
    /** The default project of the first organization, and its further one. */
    defaultProjectId: data.find(({ isDefault }: { isDefault: boolean }) => isDefault).id as ProjectId,
    projectId,
    otherProjectId: otherOrg.defaultProjectId as ProjectId,
    keys: {
      /** Every project of the first organization. */
      whole,
      /** Only the further project. */
      bound: await createKey(undefined, [projectId]),
      /** Another organization. */
      foreign: await createKey('other'),
    },
    async createSandbox(key: string, body: object = {}): Promise<string> {
      const created = await call(key, 'POST', '/v1/sandboxes', { body });
      if (created.status !== 201) throw new Error(JSON.stringify(created.body));
      const { id } = created.body.sandbox;
      await call(key, 'GET', `/v1/sandboxes/${id}?waitFor=ready&waitMs=10000`);
      return id;
    },
    /** Creates an organization with a key for everything. */
    async createOrganization(): Promise<{ org: string; key: string; keyId: string }> {
      organizations += 1;
      const org = `organization-${organizations}`;
      await operator('/orgs', { name: org });
      const { key } = await operator('/keys', { org, scopes: ['*'] });
      return { org, key: key.secret, keyId: key.id };
    },
    /** Returns the audit events of an API key as "action outcome", in the order of the list. */
    async auditOf(key: string, actor: string): Promise<string[]> {
      const { data } = (await call(key, 'GET', '/v1/audit-events?limit=100')).body;
      const events = data as AuditEvent[];
      return events.filter((event) => event.actor.id === actor).map(({ action, outcome }) => `${action} ${outcome}`);
    },
    async close(): Promise<void> {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

// biome-ignore lint/suspicious/noExplicitAny: as in `Answer`
function callOperator(target: RequestOptions, body: unknown): Promise<any> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' };
    const sent = request({ ...target, headers, agent: false }, async (response) => {
      resolve(JSON.parse((await response.setEncoding('utf8').toArray()).join('')));
    });
    sent.once('error', reject).end(JSON.stringify(body));
  });
}
