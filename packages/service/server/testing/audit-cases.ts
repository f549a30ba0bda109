/**
 * A request of each operation that has an audit event. `compose/audit-events.test.ts` requires a case for every such
 * operation of the contract.
 */
import { randomUUID } from 'node:crypto';
import type { OperationId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { sendTo } from './archive-uploads.ts';
import { EMPTY_ARCHIVE, EMPTY_TAR } from './archives.ts';
import type { Answer, Tenants } from './tenants.ts';

type ResourceId =
  | 'projectId'
  | 'sandboxId'
  | 'name'
  | 'contextId'
  | 'commandId'
  | 'artifactId'
  | 'previewId'
  | 'apiKeyId'
  | 'secretId'
  | 'webhookId'
  | 'deliveryId'
  | 'template'
  | 'buildId'
  | 'workspaceRunId';
export type ResourceIds = Partial<Record<ResourceId, string>> & { readonly projectId: string };

export interface AuditCase {
  readonly body?: (ids: ResourceIds) => unknown;
  /** An archive to send instead of JSON. */
  readonly bytes?: Buffer;
  /** Prepares each request that changes something. */
  readonly prepare?: (call: Call, ids: ResourceIds) => Promise<void>;
  /** Whether the same request changes something again, so that it has a further event. */
  readonly again: 'changes' | 'changes nothing';
  /**
   * Checks that a request without an event had no effect. Needed only where a comparison of the database cannot show
   * it.
   */
  readonly untouched?: (get: Get, ids: ResourceIds) => Promise<boolean>;
}

/** Returns the body of the answer to a request. */
// biome-ignore lint/suspicious/noExplicitAny: a body is read field by field
export type Get = (path: string) => Promise<any>;

export type Call = (method: string, path: string, body?: unknown) => Promise<Answer['body']>;

const changes = (body?: AuditCase['body'], rest: Partial<AuditCase> = {}): AuditCase => ({
  ...(body && { body }),
  again: 'changes',
  ...rest,
});
const once = (body?: AuditCase['body']): AuditCase => changes(body, { again: 'changes nothing' });

const command = { command: ['bash', 'print x'] };
const secret = { name: 'x', value: 'a value', hosts: ['api.test'] };
/** A webhook that no message is sent to, because its address is not permitted. */
const url = 'https://localhost/';

export const AUDIT_CASES: Partial<Record<OperationId, AuditCase>> = {
  createSandbox: changes(({ projectId }) => ({ projectId })),
  // There is one then.
  getOrCreateSandbox: once(({ projectId }) => ({ projectId })),
  updateSandbox: changes(() => ({ metadata: { team: 'x' } })),
  setSandboxTtl: changes(() => ({ ttlMs: 7_200_000 })),
  extendSandbox: changes(() => ({ ttlMs: 7_200_000 })),
  pauseSandbox: once(),
  resumeSandbox: changes(undefined, {
    async prepare(call, { sandboxId }) {
      await call('POST', `/v1/sandboxes/${sandboxId}/pause`);
    },
  }),
  killSandbox: once(),

  createContext: changes(() => ({ language: 'python' })),
  deleteContext: once(),
  interruptContext: changes(),
  restartContext: changes(),

  createCommand: changes(() => command),
  runCommand: changes(() => command),
  startCommand: changes(() => command),
  killCommand: changes(() => ({ signal: 'SIGKILL' }), {
    async untouched(get, { sandboxId, commandId }) {
      return (await get(`/v1/sandboxes/${sandboxId}/commands/${commandId}`)).command.status === 'running';
    },
  }),
  openPty: changes(),

  exportArtifact: changes(() => ({ path: 'kept' })),
  createArtifactDownloadUrl: changes(() => ({})),
  deleteArtifact: once(),

  openPreview: changes(() => ({ port: 8000 })),
  deletePreview: once(),

  createApiKey: changes(() => ({ name: 'x', scopes: ['file:read'] })),
  rotateApiKey: changes(() => ({})),
  revokeApiKey: once(),

  // Its name is taken then.
  createProject: once(() => ({ name: 'audited' })),
  updateProject: changes(() => ({ metadata: { team: 'x' } })),
  deleteProject: once(),

  createSecret: changes(({ projectId }) => ({ ...secret, projectId })),
  updateSecret: changes(() => ({ value: 'another value' })),
  deleteSecret: once(),

  // Its slug is taken then.
  createTemplate: once(() => ({ slug: 'audited', from: 'node' })),
  updateTemplate: changes(() => ({ description: 'x' })),
  deleteTemplate: once(),
  createTemplateBuild: changes(() => ({ from: 'node' })),
  cancelTemplateBuild: once(),

  createWebhook: changes(({ projectId }) => ({ url, events: ['*'], projectId })),
  updateWebhook: changes(() => ({ events: ['sandbox.*'] })),
  deleteWebhook: once(),
  rotateWebhookSecret: changes(),
  testWebhook: changes(undefined, {
    async untouched(get, { webhookId }) {
      return (await get(`/v1/webhooks/${webhookId}/deliveries`)).data.length === 0;
    },
  }),
  resendWebhookDelivery: changes(),

  uploadWorkspaceArchive: changes(undefined, { bytes: EMPTY_TAR }),
  createArchiveTransfer: changes(() => EMPTY_ARCHIVE),
  finalizeArchive: changes(undefined, { prepare: uploadArchive }),
  startWorkspaceRun: changes(undefined, { again: 'changes nothing', prepare: storeArchive }),
  cancelWorkspaceRun: once(),
  createWorkspaceRun: changes(({ projectId }) => ({ command: 'true', projectId })),
};

/** Uploads an archive to a run, to be finalized. */
async function uploadArchive(call: Call, { workspaceRunId }: ResourceIds): Promise<void> {
  const { transfer } = await call('POST', `/v1/workspace-runs/${workspaceRunId}/archive-transfer`, EMPTY_ARCHIVE);
  await sendTo(transfer, EMPTY_TAR);
}

/** Stores an archive of a run that was not started, which can be started then. */
async function storeArchive(call: Call, ids: ResourceIds): Promise<void> {
  const { workspaceRun } = await call('GET', `/v1/workspace-runs/${ids.workspaceRunId}`);
  if (workspaceRun.status !== 'awaiting_archive') return;
  await uploadArchive(call, ids);
  await call('POST', `/v1/workspace-runs/${ids.workspaceRunId}/archive/finalize`);
}

/** Creates the resources that a path names, in a project of their own. */
export async function createResources({ call, createProject, createSandbox }: Tenants, key: string, path: string) {
  const create = async (at: string, body: unknown) => {
    const answer = await call(key, 'POST', at, { body, idempotencyKey: randomUUID() });
    if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
    return answer.body;
  };
  const projectId = await createProject(key, randomUUID());
  const ids: ResourceIds & Record<string, string> = { projectId };
  const makers: Record<Exclude<ResourceId, 'projectId'>, () => Promise<string>> = {
    sandboxId: () => createSandbox(key, { projectId }),
    name: async () => 'audited',
    contextId: async () => (await create(`${sandbox()}/code/contexts`, { language: 'python' })).context.id,
    commandId: async () =>
      (await create(`${sandbox()}/commands`, { command: ['bash', 'hang'], background: true })).command.id,
    artifactId: async () => {
      ids.sandboxId = await makers.sandboxId();
      await writeFile();
      return (await create(`${sandbox()}/artifacts`, { path: 'kept' })).artifact.id;
    },
    previewId: async () => {
      ids.sandboxId = await makers.sandboxId();
      return (await create(`${sandbox()}/previews`, { port: 8000 })).preview.id;
    },
    apiKeyId: async () => (await create('/v1/api-keys', { name: 'x', scopes: ['*'] })).apiKey.id,
    secretId: async () => (await create('/v1/secrets', { ...secret, projectId })).secret.id,
    webhookId: async () => (await create('/v1/webhooks', { url, events: ['*'], projectId })).webhook.id,
    workspaceRunId: async () => (await create('/v1/workspace-runs', { command: 'true', projectId })).workspaceRun.id,
    async template() {
      const { template, build } = await create('/v1/templates', { slug: randomUUID(), from: 'node' });
      await call(key, 'GET', `/v1/templates/${template.id}/builds/${build.id}?waitMs=10000`);
      return template.id;
    },
    async buildId() {
      const builds = `/v1/templates/${ids.template}/builds`;
      const { build } = await create(builds, { from: 'node', setup: [{ run: 'hang' }] });
      const isRunning = async () =>
        (await call(key, 'GET', `${builds}/${build.id}`)).body.build.steps[0].status === 'running';
      await eventually(isRunning, { because: 'the build runs its step' });
      return build.id;
    },
    async deliveryId() {
      await createSandbox(key, { projectId });
      const deliveries = async () =>
        (await call(key, 'GET', `/v1/webhooks/${ids.webhookId}/deliveries`)).body.data as { id: string }[];
      await eventually(async () => (await deliveries()).length > 0, { because: 'an event was tried' });
      return (await deliveries())[0]?.id ?? '';
    },
  };
  const sandbox = () => `/v1/sandboxes/${ids.sandboxId}`;
  const writeFile = () => call(key, 'PUT', `${sandbox()}/files/content?path=kept`, { body: Buffer.from('x') });
  for (const [, name = ''] of path.matchAll(/\{(\w+)\}/g)) {
    if (name !== 'projectId') ids[name] = await makers[name as keyof typeof makers]();
  }
  if (ids.sandboxId !== undefined) await writeFile();
  return ids;
}
