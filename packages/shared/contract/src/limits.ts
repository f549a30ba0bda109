/** Limits of the contract. Times are in milliseconds, sizes in bytes, lengths in characters. */
export const LIMITS = {
  /** Maximum and default lifetime at creation. */
  createTtlMaxMs: 3_600_000,
  createTtlDefaultMs: 3_600_000,
  /** Maximum lifetime in a TTL update, and maximum age of a session, which begins at creation or the last wake. */
  updateTtlMaxMs: 86_400_000,
  sessionMaxMs: 86_400_000,
  pauseRetainMinMs: 60_000,
  /** Time between `sandbox.retention_ending` and the end of the retention. A shorter retention has no such event. */
  retentionNoticeMs: 86_400_000,
  /** Shortest time without use after which a sandbox is paused or destroyed. */
  idleMinMs: 1_000,
  wakeTtlMinMs: 1_000,
  /** Requests that may wait for the wake of one sandbox, and for wakes on one server. */
  wakeWaitersPerSandbox: 256,
  wakeWaiters: 4_096,

  sandboxNameLength: 63,

  metadataKeys: 16,
  metadataKeyLength: 64,
  metadataValueLength: 512,
  /** All metadata keys and values together, in UTF-8. */
  metadataBytes: 4096,

  projectNameLength: 64,
  /** Projects of an organization that are not deleted. */
  projectsPerOrganization: 1000,

  envEntries: 64,
  envBytes: 32 * 1024,
  networkHosts: 64,
  /** The command line of a start command and its environment together. */
  startCommandBytes: 32 * 1024,
  startCommandArguments: 1000,

  codeBytes: 262_144,
  runTimeoutDefaultMs: 60_000,
  runTimeoutMaxMs: 600_000,
  contextTimeoutDefaultMs: 30_000,
  contextTimeoutMaxMs: 600_000,
  cwdLength: 4096,

  commandTimeoutDefaultMs: 60_000,
  commandTimeoutMaxMs: 3_600_000,
  /** Longest argument that the Linux kernel accepts, without its terminating NUL. */
  commandArgumentBytes: 131_071,
  commandArguments: 65_536,
  /**
   * All arguments together. The kernel applies the same limit to arguments plus environment, and adds a NUL and eight
   * bytes for each string.
   */
  commandBytes: 2 * 1024 * 1024,
  /** Data of one write to standard input. */
  commandStdinBytes: 1024 * 1024,
  /** Output kept per command; the oldest is dropped first. */
  commandLogBytes: 16 * 1024 * 1024,
  /** Entries in one page of a command's log. */
  commandLogEntries: 1000,

  /**
   * Standard output and standard error of a run or a command, each, as JSON, where a control character takes six bytes.
   */
  outputStreamBytes: 8 * 1024 * 1024,
  /** Value of one rich output, as JSON. */
  inlineOutputBytes: 8 * 1024 * 1024,
  /** All rich outputs of a run together, as JSON. */
  inlineOutputsBytes: 32 * 1024 * 1024,

  artifactNameLength: 255,
  downloadUrlDefaultMs: 3_600_000,
  downloadUrlMaxMs: 7 * 86_400_000,
  /** Size of one rich output, as base64 or as JSON text, of a run with `artifactPolicy: promote`. */
  promotedOutputBytes: 48 * 1024 * 1024,
  /** All rich outputs of such a run together. */
  promotedOutputsBytes: 256 * 1024 * 1024,
  /** Outputs of one run that are stored as artifacts. */
  promotedOutputs: 1000,

  /** Columns or rows of a terminal; more are cut. */
  terminalMaxSide: 1000,
  /** Largest number of columns or rows that a kernel can store. */
  terminalNamedSide: 65_535,
  terminalDefaultCols: 80,
  terminalDefaultRows: 24,

  /** Open previews per sandbox. */
  previewsPerSandbox: 64,
  /** A path as written: percent escapes make a path of 4096 bytes up to three times as long, plus `file://`. */
  filePathLength: 12_300,
  /** Entries in one listing. */
  fileListEntries: 50_000,
  /** All entries of one listing together, as JSON. */
  fileListBytes: 16 * 1024 * 1024,
  fileListDepth: 64,

  /** Working keys that an organization can have for its keys to create another. */
  apiKeysPerOrganization: 1000,
  apiKeyNameLength: 64,
  apiKeyProjects: 100,
  /** How long a rotated key still works. */
  apiKeyGraceDefaultMs: 86_400_000,
  apiKeyGraceMaxMs: 7 * 86_400_000,

  /** Entries in one page of a list. */
  listPage: 500,
  cursorLength: 8192,
  /** Characters after the prefix of an id by whose beginning a list is filtered. */
  idPrefixLength: 40,
  /** Events in one page. */
  eventsPerPage: 500,
  eventTypesLength: 1000,
  auditEventsPerPage: 500,
  /** A value by which audit events are filtered. */
  auditFilterLength: 100,

  /** Longest range of a list of usage, and the rows of all projects together that it may have. */
  usageDays: 400,
  usageHours: 800,
  usageRows: 10_000,
  /** A time in a query, as text. */
  queryTimeLength: 100,

  /** Secrets of an organization that are not deleted. */
  secretsPerOrganization: 1000,
  secretsPerSandbox: 32,
  secretNameLength: 64,
  secretValueLength: 8192,

  webhooksPerOrganization: 50,
  webhookUrlLength: 2048,
  webhookEvents: 64,
  webhookDescriptionLength: 256,
  /** How long a rotated secret still signs. */
  webhookSecretGraceMs: 86_400_000,

  /** Time limit of the command of a workspace run. */
  workspaceRunTimeoutDefaultMs: 600_000,
  workspaceRunTimeoutMaxMs: 86_400_000,
  /** Workspace runs of an organization that have not finished. */
  unfinishedWorkspaceRuns: 10_000,
  /** A workspace run that is not started within this time is canceled. */
  workspaceRunStartWithinMs: 7 * 86_400_000,
  /** Patterns that select the artifacts of a workspace run, and the artifacts of one run. */
  artifactPatterns: 64,
  artifactPatternLength: 1024,
  workspaceRunArtifacts: 1000,
  /** An archive in one request, and one that is uploaded by a signed URL. */
  workspaceArchiveBytes: 100 * 1024 * 1024,
  workspaceArchiveTransferBytes: 5 * 1024 * 1024 * 1024,
  /** Files, directories and links in one archive. */
  workspaceArchiveEntries: 200_000,
  /** How long the URL of a transfer works. */
  archiveTransferMs: 6 * 3_600_000,
  /** How long an archive is kept after the end of its run. */
  workspaceArchiveKeptMs: 86_400_000,
  /** Output kept for each workspace run; the oldest is dropped first. */
  workspaceRunOutputBytes: 64 * 1024 * 1024,
  workspaceRunEventsPerPage: 1000,
  /** How long the events of a workspace run are kept after its end. */
  workspaceRunEventsKeptMs: 30 * 86_400_000,
  /** Templates of an organization that are not deleted. */
  templatesPerOrganization: 200,
  templateSlugLength: 48,
  templateDescriptionLength: 1000,
  /** Packages of one package manager in a recipe. */
  templatePackages: 200,
  templatePackageLength: 300,
  /** Files of a recipe, and of each of its steps. */
  templateFiles: 500,
  templateFilePathLength: 4096,
  /** All contents of files in a recipe together. */
  templateContentBytes: 2 * 1024 * 1024,
  templateSetupSteps: 100,
  templateImports: 32,
  templateImportLength: 128,
  /** Name of an image of a registry, with tag and digest. */
  imageNameLength: 512,
  imageUserLength: 256,
  /** Certificates of a registry, as PEM. */
  imageCertificatesLength: 65_536,
  /** Value of one environment variable of a version. */
  templateEnvValueLength: 16_384,
  templateBuildMs: 1_800_000,
  /** Unfinished builds of an organization, and those of them that run at a time. */
  templateBuildsQueued: 20,
  templateBuildsAtOnce: 2,
  templateBuildsListed: 200,
  /** Output of one step; a step that prints more fails. */
  templateStepOutputBytes: 64 * 1024 * 1024,
  /** Log kept per build; the oldest is dropped first. */
  templateBuildLogBytes: 16 * 1024 * 1024,

  /** Sandboxes in one list of metrics. */
  measuredSandboxes: 500,
  /** A time in a query parameter. */
  timestampLength: 64,

  waitMaxMs: 60_000,
  waitDefaultMs: 10_000,

  idempotencyKeyLength: 255,
  idempotencyRetentionMs: 86_400_000,

  /** A request body. Fits 256 KiB of code with every byte escaped as six characters, and all arguments of a command. */
  bodyBytes: 4 * 1024 * 1024,
  /** Values in a request body: fields and list entries. A command's body may have `commandArguments` more. */
  bodyValues: 2_000,
  headerBytes: 16 * 1024,
} as const;

export const DEFAULT_CWD = '/workspace';
export const DEFAULT_TEMPLATE = 'python-node';
/** The deprecated aliases may be removed after this day (spec, part 9). */
export const ALIAS_SUNSET = new Date('2027-07-10T00:00:00Z');
/** The aliases have been deprecated since this day. */
export const ALIAS_DEPRECATED_SINCE = new Date('2026-07-10T00:00:00Z');

/** Returns the UTF-8 size of a string map, keys and values together. */
export function mapBytes(map: Readonly<Record<string, string>>): number {
  let bytes = 0;
  for (const [key, value] of Object.entries(map)) bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  return bytes;
}
