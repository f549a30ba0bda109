/**
 * Server ↔ hostd: HTTP/1.1 over `hostd.sock`. Hostd knows neither tenants nor SQL, and takes no path from a caller.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `GET /health` | → `HostdHealth` |
 * | `GET /metrics` | → what is counted on this host, in Prometheus' text form: the pool, and egress' counters, as it says them, while it answers |
 * | `GET /template-versions` | → `TemplateVersionList` |
 * | `GET /instances` | → `InstanceList`: everything alive of this installation |
 * | `PUT /instances/:sandboxId/:generation` | `LaunchSpec` → `LaunchedInstance`; idempotent; closing the connection undoes it |
 * | `POST /instances/:sandboxId/:generation/kernels` | `ProvideKernel` → 204; one arrives at the agent, or waits there |
 * | `PUT /languages/:language` | → 204; instances that wait have a kernel of it started for a while |
 * | `DELETE /instances/:sandboxId/:generation` | → 204 when it is killed and listed no more; idempotent |
 * | `DELETE …?until=gone` | → 204 when nothing of it is left on the host either |
 *
 * Failures answer with `HostdErrorBody`.
 */
import { type Static, Type } from 'typebox';

export const NETWORK_MODES = ['unrestricted', 'deny-all', 'allowlist', 'denylist'] as const;

/** What an instance is launched from: a template version, as it was built. */
export const LaunchSource = Type.Union([
  Type.Object(
    { kind: Type.Literal('template'), templateVersionId: Type.String({ pattern: '^tplv_[a-z0-9]{1,64}$' }) },
    { additionalProperties: false },
  ),
]);
export type LaunchSource = Static<typeof LaunchSource>;

export const LaunchSpec = Type.Object(
  {
    source: LaunchSource,
    resources: Type.Object(
      {
        /** Cores; fractions are shares of one. */
        cpu: Type.Number({ exclusiveMinimum: 0, maximum: 256 }),
        memoryBytes: Type.Integer({ minimum: 32 * 1024 * 1024 }),
        diskBytes: Type.Integer({ minimum: 16 * 1024 * 1024 }),
        pids: Type.Integer({ minimum: 16, maximum: 1_000_000 }),
      },
      { additionalProperties: false },
    ),
    network: Type.Object(
      {
        mode: Type.Unsafe<(typeof NETWORK_MODES)[number]>(Type.Union(NETWORK_MODES.map((mode) => Type.Literal(mode)))),
        hosts: Type.Optional(Type.Array(Type.String({ maxLength: 253 }), { maxItems: 64 })),
      },
      { additionalProperties: false },
    ),
  },
  { additionalProperties: false },
);
export type LaunchSpec = Static<typeof LaunchSpec>;

/** Asks the host for a kernel that the agent can give to a context. */
export const ProvideKernel = Type.Object({ language: Type.Literal('python') }, { additionalProperties: false });
export type ProvideKernel = Static<typeof ProvideKernel>;

/** A language whose kernels are started inside of sandboxes, and that a context was opened in. */
export const StartedLanguage = Type.Union([Type.Literal('javascript'), Type.Literal('typescript')]);
export type StartedLanguage = Static<typeof StartedLanguage>;

/** One live incarnation of a sandbox. */
export const Instance = Type.Object({
  sandboxId: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  templateVersionId: Type.String(),
  /** Where the agent answers HTTP. No guest can replace what lies there. */
  agentSocketPath: Type.String(),
  startedAt: Type.String(),
});
export type Instance = Static<typeof Instance>;

export const LaunchedInstance = Type.Object({
  ...Instance.properties,
  /** Its agent has answered already, as one launched ahead of demand has; otherwise it may be starting still. */
  agentAnswers: Type.Boolean(),
  /**
   * Whether a Python kernel is at its agent for the first context. Only the first answer says so. It is part of the launch so
   * that the first run need not ask for one.
   */
  kernelReady: Type.Boolean(),
});
export type LaunchedInstance = Static<typeof LaunchedInstance>;

export const InstanceList = Type.Object({ instances: Type.Array(Instance) });

export const StopQuery = Type.Object({ until: Type.Optional(Type.Literal('gone')) }, { additionalProperties: false });
export type StopQuery = Static<typeof StopQuery>;

/** What a curated image is, as the builder wrote it beside the root file system. */
export const TemplateVersionManifest = Type.Object({
  /** `tplv_` and the first 20 hex digits of `digest`. */
  id: Type.String(),
  /** `python-node`, `node`. */
  slug: Type.String(),
  description: Type.String(),
  /** For people: `YYYY.MM.DD-` of the build and the first 8 digits of the digest. */
  version: Type.String(),
  /** SHA-256 of the recipe and of the list of what was installed. */
  digest: Type.String(),
  languages: Type.Array(Type.String()),
  /** Name and version of what was installed, by manager: `{ apt: { git: "1:2.39…" }, pip: {…}, npm: {…} }`. */
  packages: Type.Record(Type.String(), Type.Record(Type.String(), Type.String())),
  /** Of every process in a sandbox of this version. */
  env: Type.Optional(Type.Record(Type.String(), Type.String())),
  builtAt: Type.String(),
});
export type TemplateVersionManifest = Static<typeof TemplateVersionManifest>;
export const TemplateVersionList = Type.Object({ templateVersions: Type.Array(TemplateVersionManifest) });

export type HostdHealth = Static<typeof HostdHealth>;
export const HostdHealth = Type.Object({
  status: Type.Literal('ready'),
  protocolVersion: Type.Integer(),
  installationId: Type.String(),
  ociRuntime: Type.String(),
  /** Instances launched ahead of demand. The counts are since the start of hostd. */
  pool: Type.Object({
    /** How many are wanted, of all kinds together. */
    size: Type.Integer(),
    ready: Type.Integer(),
    /** Launches that found one, and that did not. */
    hits: Type.Integer(),
    misses: Type.Integer(),
  }),
});

/**
 * `bad_request` 400; `template_not_found` 404; `network_mode_unsupported` 422: this host cannot enforce it, so nothing
 * was launched; `no_capacity` 503: out of slots, memory or disk; `launch_failed` 500: undone, nothing is left;
 * `kernel_unavailable` 409: the host has no kernel for that instance now, so its agent has to start one.
 */
export const HOSTD_ERROR_CODES = [
  'bad_request',
  'template_not_found',
  'network_mode_unsupported',
  'no_capacity',
  'launch_failed',
  'kernel_unavailable',
  'internal',
] as const;
export type HostdErrorCode = (typeof HOSTD_ERROR_CODES)[number];
export const HostdErrorBody = Type.Object({ error: Type.Object({ code: Type.String(), message: Type.String() }) });
