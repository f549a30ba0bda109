/**
 * How each operation of the contract is tried on what belongs to another organization or to another project. The type
 * and `compose/tenancy.test.ts` require a case for every operation.
 */
import type { OperationId } from '@cloche/contract';
import { EMPTY_ARCHIVE, EMPTY_TAR } from './archives.ts';

/** Ids of one project, and the values that requests name besides. */
export interface Ids {
  readonly projectId: string;
  readonly sandboxId: string;
  /** Name of the sandbox. */
  readonly name: string;
  readonly contextId: string;
  readonly commandId: string;
  readonly artifactId: string;
  readonly previewId: string;
  readonly apiKeyId: string;
  readonly secretId: string;
  readonly webhookId: string;
  readonly deliveryId: string;
  readonly workspaceRunId: string;
  /** Id of a template, and of a build of it. */
  readonly template: string;
  readonly buildId: string;
}

/** The parts of a request besides its path, whose parameters are filled in from the ids. */
export interface Parts {
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string>>;
  readonly bytes?: string;
}

/** A request that names ids, in its path or elsewhere. */
export interface NamingCase {
  readonly kind: 'names';
  readonly title: string;
  readonly parts: (ids: Ids) => Parts;
  /**
   * How the ids are answered to a key that is bound to another project of the organization: with `forbidden`, like
   * unknown ids, or like to any other key if the resource belongs to the whole organization.
   */
  readonly outside: 'forbidden' | 'as_unknown' | 'permitted';
  /** Order of the requests of the owner that destroy something; the others come before. */
  readonly destroys: number;
}

/** A request that names nothing and answers or streams what the key can see. `shows` is what the owner sees. */
export interface ListingCase {
  readonly kind: 'lists';
  readonly title: string;
  readonly shows: keyof Ids;
  readonly query?: Readonly<Record<string, string>>;
  /** Whether a key that is bound to another project sees it too, since it belongs to the whole organization. */
  readonly boundSees?: boolean;
}

/** A request that names nothing, with the same answer for all organizations, or one about the key itself. */
export interface GeneralCase {
  readonly kind: 'general';
  readonly title: string;
  readonly parts: (ids: Ids) => Parts;
  /** Status of the answer to a key that is bound to another project. */
  readonly bound: number;
}

export type Case = NamingCase | ListingCase | GeneralCase;

type Rest = Partial<Omit<NamingCase, 'kind' | 'parts'>>;

const naming = (parts: NamingCase['parts'], rest: Rest = {}): NamingCase => ({
  kind: 'names',
  title: 'by its path',
  outside: 'forbidden',
  destroys: 0,
  ...rest,
  parts,
});
const byPath = (parts: Parts = {}, rest: Rest = {}): readonly Case[] => [naming(() => parts, rest)];
const lists = (shows: keyof Ids, query?: Record<string, string>): ListingCase => ({
  kind: 'lists',
  title: 'the whole list',
  shows,
  ...(query && { query }),
});
const general = (bound: number, parts: GeneralCase['parts'] = () => ({})): readonly Case[] => [
  { kind: 'general', title: 'as it is', parts, bound },
];
const byProject = naming(({ projectId }) => ({ query: { projectId } }), { title: 'by its filter projectId' });
const bySandbox = naming(({ sandboxId }) => ({ query: { sandboxId } }), {
  title: 'by its filter sandboxId',
  outside: 'as_unknown',
});
const command = { command: ['bash', 'print x'] };
const code = { code: 'print x', language: 'python' };
const secret = { name: 'x', value: 'a value', hosts: ['api.test'] };
/** A webhook that no message is sent to, because its address is not permitted. */
const webhook = { url: 'https://localhost/', events: ['*'] };
/** The fake's archives are JSON. */
const archive = '[]';

export const TENANCY_CASES: Readonly<Record<OperationId, readonly Case[]>> = {
  createSandbox: [
    naming(({ projectId }) => ({ body: { projectId } }), { title: 'by its body' }),
    naming(({ projectId, secretId }) => ({ body: { projectId, secrets: { A: secretId } } }), {
      title: 'by a secret of its project',
    }),
    naming(({ template }) => ({ body: { template } }), { title: 'by its template', outside: 'as_unknown' }),
  ],
  getOrCreateSandbox: [naming(({ projectId }) => ({ body: { projectId } }), { title: 'by its path, in its project' })],
  getSandboxByName: [naming(({ projectId }) => ({ query: { projectId } }), { title: 'by its path, in its project' })],
  updateSandbox: byPath({ body: { metadata: { team: 'x' } } }),
  listSandboxes: [lists('sandboxId', { include: 'historical' }), byProject],
  getSandbox: byPath(),
  setSandboxTtl: byPath({ body: { ttlMs: 10_800_000 } }),
  extendSandbox: byPath({ body: { ttlMs: 7_200_000 } }),
  pauseSandbox: byPath({}, { destroys: 3 }),
  resumeSandbox: byPath(),
  killSandbox: byPath({}, { destroys: 4 }),
  getSandboxMetrics: byPath(),
  listSandboxMetrics: [lists('sandboxId'), byProject],

  createContext: byPath({ body: { language: 'python' } }),
  listContexts: byPath(),
  getContext: byPath(),
  interruptContext: byPath(),
  restartContext: byPath(),
  deleteContext: byPath({}, { destroys: 1 }),
  runCode: [
    ...byPath({ body: code }),
    naming(({ contextId }) => ({ body: { ...code, contextId } }), { title: 'by its context' }),
  ],
  streamCode: byPath({ body: code }),

  createCommand: byPath({ body: command }),
  runCommand: byPath({ body: command }),
  startCommand: byPath({ body: command }),
  listCommands: byPath(),
  getCommand: byPath(),
  listCommandLogs: byPath(),
  streamCommand: byPath(),
  writeCommandStdin: byPath({ body: { data: 'x' } }),
  resizeCommand: byPath({ body: { cols: 80, rows: 24 } }),
  killCommand: byPath({ body: { signal: 'SIGKILL' } }, { destroys: 1 }),
  openPty: byPath(),

  listFiles: byPath(),
  statFile: byPath({ query: { path: 'kept' } }),
  readFile: byPath({ query: { path: 'kept' } }),
  readArchive: byPath(),
  watchFiles: byPath(),
  writeFile: byPath({ query: { path: 'written' }, bytes: 'x' }),
  writeArchive: byPath({ bytes: archive }),
  makeDirectory: byPath({ body: { path: 'made' } }),
  copyFile: byPath({ body: { from: 'kept', to: 'copied' } }),
  moveFile: byPath({ body: { from: 'moved', to: 'elsewhere' } }),
  deleteFile: byPath({ query: { path: 'deleted' } }, { destroys: 1 }),

  exportArtifact: byPath({ body: { path: 'kept' } }),
  listArtifacts: [lists('artifactId'), byProject, bySandbox],
  getArtifact: byPath(),
  downloadArtifact: byPath(),
  createArtifactDownloadUrl: byPath({ body: {} }),
  deleteArtifact: byPath({}, { destroys: 1 }),

  openPreview: byPath({ body: { port: 8000 } }),
  listSandboxPreviews: byPath(),
  listPreviews: [lists('previewId'), byProject, bySandbox],
  getPreview: byPath(),
  deletePreview: byPath({}, { destroys: 1 }),

  listEvents: [lists('sandboxId', { limit: '500' }), byProject],
  streamEvents: [lists('sandboxId'), byProject],
  listAuditEvents: [lists('sandboxId', { limit: '500' })],

  createSecret: [
    naming(({ projectId }) => ({ body: { ...secret, projectId } }), { title: 'by its body' }),
    ...general(403, () => ({ body: secret })),
  ],
  listSecrets: [lists('secretId'), byProject],
  getSecret: byPath(),
  updateSecret: byPath({ body: { value: 'another value' } }),
  deleteSecret: byPath({}, { destroys: 1 }),

  createWebhook: [
    naming(({ projectId }) => ({ body: { ...webhook, projectId } }), { title: 'by its body' }),
    // A key that is bound to a project cannot have the events of the whole organization sent.
    ...general(403, () => ({ body: webhook })),
  ],
  listWebhooks: [lists('webhookId'), byProject],
  getWebhook: byPath(),
  updateWebhook: byPath({ body: { events: ['sandbox.*'] } }),
  rotateWebhookSecret: byPath(),
  testWebhook: byPath(),
  listWebhookDeliveries: byPath(),
  resendWebhookDelivery: byPath(),
  deleteWebhook: byPath({}, { destroys: 1 }),

  createWorkspaceRun: [
    naming(({ projectId }) => ({ body: { command: 'true', projectId } }), { title: 'by its body' }),
    naming(({ projectId, secretId }) => ({ body: { command: 'true', projectId, secrets: { A: secretId } } }), {
      title: 'by a secret of its project',
    }),
  ],
  listWorkspaceRuns: [lists('workspaceRunId'), byProject],
  getWorkspaceRun: byPath({ query: { waitFor: 'finished', waitMs: '1' } }),
  uploadWorkspaceArchive: byPath({ bytes: EMPTY_TAR.toString('latin1') }),
  createArchiveTransfer: byPath({ body: EMPTY_ARCHIVE }),
  finalizeArchive: byPath({}, { destroys: 1 }),
  startWorkspaceRun: byPath({}, { destroys: 2 }),
  listWorkspaceRunEvents: byPath(),
  streamWorkspaceRunEvents: byPath(),
  cancelWorkspaceRun: byPath({}, { destroys: 3 }),

  createTemplate: [
    // Templates belong to no project.
    ...general(403, () => ({ body: { slug: 'another', from: 'node' } })),
  ],
  listTemplates: [{ ...lists('template'), boundSees: true }],
  getTemplate: byPath({}, { outside: 'permitted' }),
  updateTemplate: byPath({ body: { description: 'x' } }),
  deleteTemplate: byPath({}, { destroys: 2 }),
  listTemplateVersions: byPath({}, { outside: 'permitted' }),
  createTemplateBuild: [
    ...byPath({ body: { from: 'node' } }),
    naming(({ template }) => ({ body: { from: template } }), { title: 'by its body' }),
  ],
  inspectImage: general(403, () => ({ body: { image: 'registry.test/a' } })),
  listTemplateBuilds: byPath({}, { outside: 'permitted' }),
  getTemplateBuild: byPath({}, { outside: 'permitted' }),
  listTemplateBuildLogs: byPath({}, { outside: 'permitted' }),
  streamTemplateBuildLogs: byPath({}, { outside: 'permitted' }),
  cancelTemplateBuild: byPath({}, { destroys: 1 }),

  createProject: general(403, () => ({ body: { name: 'the same in both' } })),
  listProjects: [lists('projectId', { include: 'deleted' })],
  getProject: byPath(),
  updateProject: byPath({ body: { metadata: {} } }),
  deleteProject: byPath({}, { destroys: 5 }),

  listQuotas: [general(200)[0] as GeneralCase, byProject],

  listUsage: [lists('projectId'), byProject],
  getSandboxUsage: byPath(),

  createApiKey: [
    naming(({ projectId }) => ({ body: { name: 'x', scopes: ['*'], projectIds: [projectId] } }), {
      title: 'by its body',
    }),
  ],
  listApiKeys: [lists('apiKeyId', { include: 'revoked' })],
  getCurrentApiKey: general(200),
  getApiKey: byPath(),
  rotateApiKey: byPath({ body: {} }),
  revokeApiKey: byPath({}, { destroys: 1 }),
};
