/** Every bound that the contract states. Times in milliseconds, sizes in bytes, lengths in characters. */
export const LIMITS = {
  /** Create: the longest lifetime, and the default. */
  createTtlMaxMs: 3_600_000,
  createTtlDefaultMs: 3_600_000,
  /** TTL update: the largest value, and the longest whole session counted from creation. */
  updateTtlMaxMs: 86_400_000,
  sessionMaxMs: 86_400_000,

  metadataKeys: 16,
  metadataKeyLength: 64,
  metadataValueLength: 512,
  /** Keys and values together, in UTF-8. */
  metadataBytes: 4096,

  envEntries: 64,
  envBytes: 32 * 1024,
  networkHosts: 64,

  codeBytes: 262_144,
  runTimeoutDefaultMs: 60_000,
  runTimeoutMaxMs: 600_000,
  contextTimeoutDefaultMs: 30_000,
  contextTimeoutMaxMs: 600_000,
  cwdLength: 4096,

  commandTimeoutDefaultMs: 60_000,
  commandTimeoutMaxMs: 3_600_000,
  /** The longest argument that the kernel takes, its end not counted. */
  commandArgumentBytes: 131_071,
  commandArguments: 65_536,
  /** All arguments together. The kernel takes as much of them with the environment, each end and eight bytes more for each. */
  commandBytes: 2 * 1024 * 1024,
  /** One write to standard input. */
  commandStdinBytes: 1024 * 1024,
  /** What is kept of a command's output; the oldest goes first. */
  commandLogBytes: 16 * 1024 * 1024,
  /** One page of it. */
  commandLogEntries: 1000,

  /** Standard output and standard error of a run or a command, each, as JSON writes it: a control character takes six. */
  outputStreamBytes: 8 * 1024 * 1024,
  /** Bytes of the value of one rich output, as JSON writes it. */
  inlineOutputBytes: 8 * 1024 * 1024,
  /** All rich outputs of a run together, as JSON writes them. */
  inlineOutputsBytes: 32 * 1024 * 1024,

  artifactNameLength: 255,
  downloadUrlDefaultMs: 3_600_000,
  downloadUrlMaxMs: 7 * 86_400_000,
  /** Bytes of one rich output, base64 or text as JSON writes it, of a run whose outputs become artifacts. */
  promotedOutputBytes: 48 * 1024 * 1024,
  /** All of such a run together. */
  promotedOutputsBytes: 256 * 1024 * 1024,

  /** Open previews of one sandbox. */
  previewsPerSandbox: 64,
  /** A path as it is written; one of 4096 bytes is longer where escapes spell it. */
  filePathLength: 12_300,
  /** Entries of one listing. */
  fileListEntries: 50_000,
  /** The entries of one listing together, as JSON. */
  fileListBytes: 16 * 1024 * 1024,
  fileListDepth: 64,

  waitMaxMs: 60_000,
  waitDefaultMs: 10_000,

  idempotencyKeyLength: 255,
  idempotencyRetentionMs: 86_400_000,

  /** A request body: 256 KB of code of which JSON spells each byte with six characters, or all arguments of a command. */
  bodyBytes: 4 * 1024 * 1024,
  /** Values in a request body: fields, and entries of lists. Commands may have as many more as they have arguments. */
  bodyValues: 2_000,
  headerBytes: 16 * 1024,
} as const;

export const DEFAULT_CWD = '/workspace';
export const DEFAULT_TEMPLATE = 'python-node';
/** The day after which the deprecated aliases may go (spec, part 9). */
export const ALIAS_SUNSET = new Date('2027-07-10T00:00:00Z');
/** The day since which they are deprecated. */
export const ALIAS_DEPRECATED_SINCE = new Date('2026-07-10T00:00:00Z');

/** Bytes of a string map, keys and values together, in UTF-8. */
export function mapBytes(map: Readonly<Record<string, string>>): number {
  let bytes = 0;
  for (const [key, value] of Object.entries(map)) bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  return bytes;
}
