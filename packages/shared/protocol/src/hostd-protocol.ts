/**
 * Server ↔ hostd: HTTP/1.1 over `hostd.sock`. hostd has no notion of tenants or SQL, and accepts no path from a caller.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `GET /health` | → `HostdHealth` |
 * | `POST /warnings` | → `HostWarningList`, after hostd has sent packets through the host's firewalls once more |
 * | `GET /metrics` | → metrics of this host in Prometheus' text format: the pool's, and egress's own while it answers |
 * | `GET /template-versions` | → `TemplateVersionList` |
 * | `GET /instances` | → `InstanceList`: all live instances of this installation |
 * | `GET /instances/:sandboxId/:generation` | → `Instance`, or 404 `instance_not_found` if it does not live here |
 * | `GET /uses` | → `InstanceUseList`: what each live instance has used |
 * | `POST /uses` | `MeasureInstances` → `InstanceUseList`: what those that live have used |
 * | `POST /measurements` | `MeasureInstances` → `MeasuredInstanceList`: measurements of those that live |
 * | `GET /instances/:sandboxId/:generation/measurements` | `HistoryQuery` → `InstanceHistory` |
 * | `PUT /instances/:sandboxId/:generation` | `LaunchSpec` → `LaunchedInstance`; idempotent; closing the connection undoes the launch |
 * | `PUT …?starts=busy` | the same; hostd launches nothing ahead for a moment, because the sandbox computes from its first moment |
 * | `POST /expected-launches` | `LaunchSpec` → 204 once an instance waits for such a launch, or has no place, or takes long |
 * | `POST /instances/:sandboxId/:generation/kernels` | `ProvideKernel` → 204; a kernel is connected, or will connect, to the agent |
 * | `PUT /languages/:language` | → 204; for a while, waiting instances start a kernel of that language |
 * | `DELETE /instances/:sandboxId/:generation` | → `StoppedInstance` once the instance is killed and no longer listed; idempotent |
 * | `DELETE …?until=gone` | → `StoppedInstance` once nothing of the instance is left on the host |
 * | `POST /instances/:sandboxId/:generation/freeze` | → `{}` once no process of the instance executes; idempotent |
 * | `POST /instances/:sandboxId/:generation/thaw` | → `{}` once its processes go on; idempotent |
 * | `POST /instances/:sandboxId/:generation/keep` | → `ParkedDisk`: from now on the disk outlives the instance, which goes on; idempotent |
 * | `POST /instances/:sandboxId/:generation/park` | → `ParkedInstance`; ends the instance and keeps its disk; idempotent |
 * | `GET /parked` | → `ParkedDiskList` |
 * | `DELETE /parked/:sandboxId/:generation` | → 204 once the disk is not kept any more; an instance that uses it keeps it; idempotent |
 * | `POST /instances/:sandboxId/:generation/capture` | `CaptureInstance` → `CapturedVersion`; ends the instance |
 * | `GET /captured-versions` | → `CapturedVersionList` |
 * | `POST /captured-versions` | `DeriveVersion` → `CapturedVersion`: the files of another version under a new manifest |
 * | `GET /made-versions` | → `CapturedVersionRefList`: captured versions of the purpose `version`, and when each was captured last |
 * | `DELETE /captured-versions/:versionId` | `RemoveVersionQuery` → 204 once the version cannot be launched any more; idempotent |
 *
 * The body of a failure is `HostdErrorBody`. A request with the W3C header `traceparent` gets the header `server-timing`
 * (`timings.ts`).
 */
import { type Static, Type } from 'typebox';
import { Count, Environment, MAX_LISTED, mapOf, Ordinal, Path, Sentence, Word } from './bounded.ts';
import { VersionId } from './captured-versions.ts';
import { HostWarningList } from './host-warnings.ts';
import { IsolationClaims, NetworkMode } from './isolation-claims.ts';

/** A template version as the source of an instance, which gets a fresh disk. */
export const TemplateSource = Type.Object(
  { kind: Type.Literal('template'), templateVersionId: VersionId },
  { additionalProperties: false },
);

/** Source of an instance: a template version, or the kept disk of an earlier generation of the sandbox. */
export const LaunchSource = Type.Union([
  TemplateSource,
  Type.Object(
    {
      kind: Type.Literal('parked'),
      /** The version that the earlier generation was launched from. */
      templateVersionId: VersionId,
      /** Generation that left the disk; lower than that of the launch. */
      generation: Ordinal,
    },
    { additionalProperties: false },
  ),
]);
export type LaunchSource = Static<typeof LaunchSource>;

export const LaunchSpec = Type.Object(
  {
    source: LaunchSource,
    resources: Type.Object(
      {
        /** Cores; a fraction is a share of one core. */
        cpu: Type.Number({ exclusiveMinimum: 0, maximum: 256 }),
        memoryBytes: Type.Integer({ minimum: 32 * 1024 * 1024, maximum: Number.MAX_SAFE_INTEGER }),
        diskBytes: Type.Integer({ minimum: 16 * 1024 * 1024, maximum: Number.MAX_SAFE_INTEGER }),
        pids: Type.Integer({ minimum: 16, maximum: 1_000_000 }),
      },
      { additionalProperties: false },
    ),
    network: Type.Object(
      {
        mode: NetworkMode,
        hosts: Type.Optional(Type.Array(Type.String({ maxLength: 253 }), { maxItems: 64 })),
      },
      { additionalProperties: false },
    ),
  },
  { additionalProperties: false },
);
export type LaunchSpec = Static<typeof LaunchSpec>;

/**
 * Header of launches: names the owner of the instance. hostd only compares the names, and counts by them the instances
 * that wait with files of a client. Launches without it are for one unnamed owner.
 */
export const OWNER_HEADER = 'cloche-owner';

export const LaunchHeaders = Type.Object({
  [OWNER_HEADER]: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })),
});
export type LaunchHeaders = Static<typeof LaunchHeaders>;

export const LaunchQuery = Type.Object(
  { starts: Type.Optional(Type.Literal('busy')) },
  { additionalProperties: false },
);
export type LaunchQuery = Static<typeof LaunchQuery>;

/** Requests a kernel from the host for a context. */
export const ProvideKernel = Type.Object({ language: Type.Literal('python') }, { additionalProperties: false });
export type ProvideKernel = Static<typeof ProvideKernel>;

/** A language whose kernels start inside sandboxes. */
export const SpawnedLanguage = Type.Union([Type.Literal('javascript'), Type.Literal('typescript')]);
export type SpawnedLanguage = Static<typeof SpawnedLanguage>;

/** A live incarnation of a sandbox. */
export const Instance = Type.Object({
  sandboxId: Word,
  generation: Ordinal,
  templateVersionId: Word,
  /** Socket of the agent's HTTP server. Guests cannot replace it. */
  agentSocketPath: Path,
  startedAt: Word,
  /** Whether its processes are frozen. hostd keeps no record of it: the kernel's freezer is asked each time. */
  isFrozen: Type.Optional(Type.Literal(true)),
});
export type Instance = Static<typeof Instance>;

export const LaunchedInstance = Type.Object({
  ...Instance.properties,
  /**
   * Whether the agent has already answered, as it has in an instance launched ahead; otherwise it may still be
   * starting.
   */
  agentAnswers: Type.Boolean(),
  /**
   * Whether a Python kernel is connected to the agent for the first context. True only in the first answer. Part of the
   * launch, so that the first run need not request a kernel.
   */
  kernelReady: Type.Boolean(),
});
export type LaunchedInstance = Static<typeof LaunchedInstance>;

export const InstanceList = Type.Object({ instances: Type.Array(Instance, { maxItems: MAX_LISTED }) });

/**
 * Resources that an instance has used since it was given to its sandbox. The counters never decrease, and a restart of
 * hostd does not reset them.
 */
export const InstanceUse = Type.Object({
  sandboxId: Word,
  generation: Ordinal,
  /** Milliseconds of processor time of all its processes, the agent's included. */
  cpuMs: Count,
  /**
   * Bytes that the sandbox has sent on its network link, with all headers. Includes what egress or the firewall
   * refused. 0 without a link.
   */
  egressBytes: Count,
  /** Bytes that the sandbox has received on its network link, with all headers. */
  ingressBytes: Count,
});
export type InstanceUse = Static<typeof InstanceUse>;

export const InstanceUseList = Type.Object({ uses: Type.Array(InstanceUse, { maxItems: MAX_LISTED }) });

/** Answer to a stop. */
export const StoppedInstance = Type.Object({
  /** Use up to the end of the instance. Absent where the instance was not alive any more. */
  use: Type.Optional(InstanceUse),
});
export type StoppedInstance = Static<typeof StoppedInstance>;

/** The disk of an instance that outlives it. */
export const ParkedDisk = Type.Object({
  sandboxId: Word,
  generation: Ordinal,
  templateVersionId: Word,
  /** Size of the disk, as of the instance's launch. */
  diskBytes: Count,
  /** Bytes that the disk occupies on the host. */
  bytes: Count,
  /** Time until which every write of the instance is kept, at least. */
  keptAt: Word,
});
export type ParkedDisk = Static<typeof ParkedDisk>;

export const ParkedDiskList = Type.Object({ disks: Type.Array(ParkedDisk, { maxItems: MAX_LISTED }) });

/** Answer to the end of an instance whose disk is kept. */
export const ParkedInstance = Type.Object({
  disk: ParkedDisk,
  /** Use up to the end of the instance. Absent where the instance was not alive any more. */
  use: Type.Optional(InstanceUse),
});
export type ParkedInstance = Static<typeof ParkedInstance>;

export const StopQuery = Type.Object({ until: Type.Optional(Type.Literal('gone')) }, { additionalProperties: false });
export type StopQuery = Static<typeof StopQuery>;

/** Manifest of a template version, which the builder writes beside the root file system. */
export const TemplateVersionManifest = Type.Object({
  /** `tplv_` and the first 20 hex digits of `digest`. */
  id: Word,
  /** For example `python-node` or `node`. */
  slug: Word,
  description: Sentence,
  /** Version for people: the build date as `YYYY.MM.DD-` and the first 8 digits of the digest. */
  version: Word,
  /** SHA-256 of the recipe and of the list of installed packages, and with `packagesAt` of both times. */
  digest: Word,
  languages: Type.Array(Word, { maxItems: 16 }),
  /** Versions of the installed packages by manager and name: `{ apt: { git: "1:2.39…" }, pip: {…}, npm: {…} }`. */
  packages: mapOf(mapOf(Word, 20_000), 16),
  /** Environment variables of every process in a sandbox of this version. */
  env: Type.Optional(Environment),
  /** Sandboxes get the version of their template with the newest of these times. */
  builtAt: Word,
  /** When the packages were installed, if the version repeats an earlier one. */
  packagesAt: Type.Optional(Word),
});
export type TemplateVersionManifest = Static<typeof TemplateVersionManifest>;
export const TemplateVersionList = Type.Object({
  templateVersions: Type.Array(TemplateVersionManifest, { maxItems: MAX_LISTED }),
});

export type HostdHealth = Static<typeof HostdHealth>;
export const HostdHealth = Type.Object({
  status: Type.Literal('ready'),
  protocolVersion: Count,
  /** Version of the agents in instances that this hostd launches. */
  agentProtocolVersion: Count,
  installationId: Word,
  ociRuntime: Word,
  /** The isolation that the OCI runtime enforces. */
  isolation: IsolationClaims,
  /** Whether instances can be frozen. */
  freeze: Type.Optional(Type.Boolean()),
  /** Whether disks can outlive their instances. */
  keepsDisks: Type.Optional(Type.Boolean()),
  /** State of the pool of instances launched ahead. Counts since the start of hostd. */
  pool: Type.Object({
    /** Most instances to keep ready, of all kinds together; one that holds much memory counts as several. */
    size: Count,
    ready: Count,
    /** Launches that found a ready instance; `misses` counts those that did not. */
    hits: Count,
    misses: Count,
  }),
  /** The warnings of hostd's last measurement of the network. */
  warnings: HostWarningList.properties.warnings,
});

/**
 * Error codes of hostd, with their HTTP status.
 *
 * `bad_request` 400; `template_not_found` 404; `network_mode_unsupported` 422: this host cannot enforce the mode, so
 * nothing was launched; `no_capacity` 503: no slot, memory or disk is left; `stopping` 503: this hostd ends, so the
 * launch was undone, and the next one takes it; `launch_failed` 500: the launch was undone; `kernel_unavailable` 409:
 * the host has no kernel for that instance now, so its agent has to start one; `capture_refused` 422: the changes
 * cannot become a version, and the message says why; `instance_not_found` 404: no such instance lives here;
 * `version_in_use` 409: an instance runs on the version, or another version is made from it; `freeze_failed` 503: the
 * instance could not be frozen in time and goes on; `disk_not_found` 404: the disk is not kept here; `disk_in_use` 409:
 * another instance of the sandbox has the disk; `disk_broken` 422: the file system was damaged, and could not be mended;
 * `disk_unkeepable` 422: the host, or the release that launched the instance, cannot keep its disk.
 */
export const HOSTD_ERROR_CODES = [
  'bad_request',
  'template_not_found',
  'network_mode_unsupported',
  'no_capacity',
  'stopping',
  'launch_failed',
  'kernel_unavailable',
  'capture_refused',
  'instance_not_found',
  'version_in_use',
  'freeze_failed',
  'disk_not_found',
  'disk_in_use',
  'disk_broken',
  'disk_unkeepable',
  'internal',
] as const;
export type HostdErrorCode = (typeof HOSTD_ERROR_CODES)[number];
export const HostdErrorBody = Type.Object({ error: Type.Object({ code: Word, message: Sentence }) });
