/** Rewrites errors of the service for people: names options in place of fields, and the command that comes next. */
import type { ErrorBody } from '@cloche/contract';
import type { ClocheError } from '@cloche/sdk';
import type { Command } from 'commander';
import { CliError } from './cli-error.ts';
import { formatDuration } from './terminal/duration.ts';

type ErrorCode = ErrorBody['error']['code'];
type Issue = { readonly path: string; readonly message: string };

/** A refusal of the service in the words of the command that was refused. */
export class RefusedError extends CliError {
  override readonly name = 'RefusedError';
  override readonly cause: ClocheError;

  constructor(message: string, cause: ClocheError) {
    super(message);
    this.cause = cause;
  }
}

/** Heading in the help of the options of every command, which fill no field. */
export const COMMON_OPTIONS = 'Common options:';

/** Options whose names differ from those of the fields. */
const OPTION_OF: Readonly<Record<string, string>> = {
  afterIdleMs: 'pause-after',
  artifacts: 'artifact',
  contentType: 'type',
  diskMb: 'disk',
  expiresAt: 'expires',
  expiresInMs: 'ttl',
  graceMs: 'grace',
  idleTimeoutMs: 'idle',
  memoryMb: 'memory',
  networkPolicy: 'network',
  onExpiry: 'pause-on-expiry',
  projectId: 'project',
  projectIds: 'projects',
  quotas: 'quota',
  retainMs: 'retain',
  secrets: 'secret',
  templateVersionId: 'template-version',
  timeoutMs: 'timeout',
  ttlMs: 'ttl',
  url: 'to',
  wakeTtlMs: 'wake-ttl',
};
/** Arguments whose names differ from those of the fields. */
const ARGUMENT_OF: Readonly<Record<string, string>> = { ttlMs: 'duration', template: 'template', path: 'sandbox:path' };
/** The service's words for what has another name here. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/\bworkspace run(s?)\b/g, 'job$1'],
  [/\bA workspace run\b/g, 'A job'],
  [/\bpause with force\b/g, 'pause with --force'],
];

/** The next step for codes whose message does not name one. */
const NEXT: Readonly<Partial<Record<ErrorCode, string>>> = {
  unauthorized: '`cloche login` saves another key.',
  forbidden: '`cloche whoami` shows what the key may do.',
  permission_denied: 'Repeat it with `--user root`.',
  method_not_allowed: '`cloche whoami` shows whether the service has another version.',
  sandbox_destroyed: '`cloche sandbox create` creates another one.',
  sandbox_failed: '`cloche sandbox create` creates another one.',
  sandbox_paused: '`cloche sandbox resume` resumes it.',
  sandbox_incompatible: '`cloche sandbox create` creates another one.',
  idempotency_request_in_progress: 'Wait a moment, then repeat the command.',
  idempotency_key_reused: 'Repeat the command.',
  conflict: 'Change what it names, then repeat the command.',
  precondition_failed: 'Repeat the command.',
  payload_too_large: 'Give it less at once; `cloche cp` has no such limit.',
  unsupported_media_type: '`cloche whoami` shows whether the service has another version.',
  range_not_satisfiable: 'Repeat the command.',
  sandbox_ttl_exceeded: 'Give a shorter --ttl.',
  quota_exceeded: '`cloche quota` shows limits and use.',
  rate_limited: 'Wait a moment, then repeat the command.',
  unavailable: 'Wait a moment, then repeat the command.',
  disk_full: '`cloche files delete` makes room, and --disk gives a new sandbox more.',
};
/** Commands that show what there is, by the kind of what was not found. */
const LIST_OF: Readonly<Record<string, string>> = {
  api_key: 'key list',
  artifact: 'artifact list',
  command: 'command list SANDBOX',
  context: 'context list SANDBOX',
  file: 'files list SANDBOX:',
  preview: 'preview list SANDBOX',
  project: 'project list',
  sandbox: 'sandbox list',
  secret: 'secret list',
  template: 'template list',
  webhook: 'webhook list',
  workspace_run: 'job list',
};

/** Returns the error with the options and arguments of `command` in place of fields, and with the next step. */
export function inWordsOf(command: Command, error: unknown): unknown {
  if (!isRefusal(error)) return error;
  const { issues } = (error.details ?? {}) as { issues?: readonly Issue[] };
  const said = issues?.map((issue) => sentenceOf(issue, command)).join('; ') ?? inFields(error.message, command);
  const message = WORDS.reduce((text, [word, own]) => text.replace(word, own), said);
  return new RefusedError(withNext(message, nextStep(error)), error);
}

function isRefusal(error: unknown): error is ClocheError {
  const { name, code, status } = error as Partial<ClocheError>;
  return name === 'ClocheError' && typeof code === 'string' && typeof status === 'number' && code !== 'internal';
}

function nextStep({ code, details }: ClocheError): string | undefined {
  if ((details as { reason?: string } | undefined)?.reason === 'memory_unsupported') return undefined;
  if (code !== 'not_found') return NEXT[code as ErrorCode];
  const list = LIST_OF[(details as { resource?: string } | undefined)?.resource ?? ''];
  return list === undefined
    ? 'Check the id, and with `cloche whoami` the key.'
    : `\`cloche ${list}\` shows what there is.`;
}

/** Adds the next step to a message that has none: those that have one name it behind a semicolon, as a command or as a second sentence. */
function withNext(message: string, next: string | undefined): string {
  if (next === undefined || /[;`]|\. [A-Z]/.test(message)) return message;
  return `${message.replace(/[.]?$/, '.')} ${next}`;
}

function sentenceOf({ path, message }: Issue, command: Command): string {
  const [place = '', ...names] = path.split('.');
  const isField = ['body', 'query', 'params', 'headers'].includes(place);
  const known = names.findLast((name) => nameFor(command, name) !== undefined);
  const name = known === undefined ? undefined : nameFor(command, known);
  return `${name ?? (isField ? names.join('.') : path)} ${inUnits(message, known ?? '')}`;
}

/** Replaces the fields that a message names itself. */
function inFields(message: string, command: Command): string {
  return message.replace(/\b((?:body|query|params)\.[\w.]*\w) ([^;]*)/g, (_, path: string, rest: string) =>
    sentenceOf({ path, message: rest }, command),
  );
}

/** Returns the option or the argument that fills the field. */
function nameFor(command: Command, field: string): string | undefined {
  const kebab = field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const own = command.options.filter(({ helpGroupHeading }) => helpGroupHeading !== COMMON_OPTIONS);
  const option = own.find(({ long }) => long === `--${OPTION_OF[field] ?? kebab}` || long === `--${kebab}`);
  if (option?.long) return option.long;
  const names = [ARGUMENT_OF[field] ?? field, field.replace(/Id$/, '')];
  const argument = command.registeredArguments.find((each) => names.includes(each.name()));
  return argument && `<${argument.name()}>`;
}

/** Returns the message with durations as people type them. */
function inUnits(message: string, field: string): string {
  if (!field.endsWith('Ms')) return message;
  return message.replace(/\b(\d{3,})\b(?: ms| \([^)]*\))?/g, (_, ms) => formatDuration(Number(ms)));
}
