import { SANDBOX_STATUS_FACTS } from '@cloche/contract/client';
import type { Cloche, SandboxInfo, SandboxStatus } from '@cloche/sdk';
import { type Command, Option } from 'commander';
import { UsageError } from '../cli-error.ts';
import { group, leaf, perform } from '../command.ts';
import { madeDespite, watchForInterruption } from '../interruption.ts';
import { type SelectionFlags, selected, showPage } from '../list-page.ts';
import { duration, keyValue } from '../option-values.ts';
import type { Session } from '../session.ts';
import { counted } from '../terminal/counted.ts';
import { formatAge, formatDuration, formatEnd, formatLeft } from '../terminal/duration.ts';
import { labelsText } from '../terminal/labels-text.ts';
import { reasonText } from '../terminal/reason-text.ts';
import { statusColor } from '../terminal/status-color.ts';
import { statusText } from '../terminal/status-text.ts';
import { fields, type TableOutput, table } from '../terminal/table.ts';
import { formatBytes } from '../terminal/transfer-bar.ts';
import { addPauseOptions, MEMORY_MODES, type PauseOptions, pauseBody } from './pause-options.ts';
import {
  addSandboxOptions,
  createWithTtl,
  present,
  type SandboxOptions,
  sandboxBody,
  takeBack,
} from './sandbox-options.ts';

const RESTORE_MODES = ['restore', 'drop'] as const;
/** Descriptions of the modes of waking. */
const WAKE_WORDS = {
  explicit: '`cloche sandbox resume` alone',
  requests: 'requests',
  traffic: 'requests and visitors of its previews',
} as const;

export function addSandboxCommands(program: Command): void {
  const sandbox = group(program, 'sandbox', 'Create, list, pause and destroy sandboxes');

  const create = leaf(sandbox, 'create', 'Create a sandbox and print its id', [
    'cloche sandbox create --ttl 30m --network deny-all',
    'id=$(cloche sandbox create); cloche run --sandbox $id script.py',
  ])
    .option('--no-wait', 'do not wait until it is ready')
    .option('--name <name>', 'name that no other sandbox of the project has');
  perform(addPauseOptions(addSandboxOptions(create)), createSandbox);

  const list = leaf(sandbox, 'list', 'List live sandboxes', ['cloche sandbox list --metadata team=blue --all'])
    .option('-a, --all', 'include destroyed and failed sandboxes')
    .option('--status <status>', 'only sandboxes with this status')
    .option('--paused', 'only paused sandboxes')
    .option('--project <id>', 'only sandboxes of this project')
    .option('--name <name>', 'only sandboxes with this name')
    .option('--metadata <key=value>', 'only sandboxes with this label; repeatable', keyValue);
  perform(selected(list), listSandboxes);

  const get = leaf(sandbox, 'get [sandbox]', 'Show a sandbox', ['cloche sandbox get --name web-app'])
    .option('--name <name>', 'the sandbox with this name')
    .option('--project <id>', 'project of the name (default: the default one)');
  perform(get, showSandbox);

  const ttl = leaf(sandbox, 'ttl <sandbox>', 'Set the remaining lifetime of a sandbox', [
    'cloche sandbox ttl sbx_… 2h',
  ]).argument('<duration>', 'such as 30m or 2h', duration);
  perform(ttl, async (session, _options, id: string, ttlMs: number) => {
    const cloche = await session.connect();
    const params = { sandboxId: id as SandboxInfo['id'] };
    const { sandbox: info } = await cloche.call('setSandboxTtl', { params, body: { ttlMs } });
    await session.show(info, () => `${info.id} ends in ${formatEnd(info.expiresAt)}`);
  });

  const pause = leaf(sandbox, 'pause <sandboxes...>', 'Pause sandboxes; their files are kept', [
    'cloche sandbox pause sbx_… --retain 7d',
  ])
    .addOption(new Option('--memory <mode>', 'what becomes of what runs in it (default: keep)').choices(MEMORY_MODES))
    .option('--force', 'first end the code runs and commands that requests wait for')
    .option('--retain <duration>', 'destroy it if it is paused for so long (default: as the operator set)', duration);
  perform(pause, pauseSandboxes);

  const resume = leaf(sandbox, 'resume <sandboxes...>', 'Resume paused sandboxes', [
    'cloche sandbox resume sbx_… --ttl 30m',
  ])
    .option('--ttl <duration>', 'lifetime from now (default: that of the creation)', duration)
    .addOption(new Option('--memory <mode>', 'drop: boot it from its files (default: restore)').choices(RESTORE_MODES));
  perform(resume, resumeSandboxes);

  const remove = leaf(sandbox, 'delete <sandboxes...>', 'Destroy sandboxes').alias('kill');
  perform(remove, (session, _options, ids: string[]) =>
    changeEach(
      session,
      ids,
      (cloche, params) => cloche.call('killSandbox', { params }),
      ({ status }) => status,
    ),
  );
}

async function showSandbox(
  session: Session,
  { name, project }: { name?: string; project?: string },
  id: string | undefined,
): Promise<void> {
  if ((id === undefined) === (name === undefined)) throw new UsageError('Give the id of a sandbox, or --name.');
  const cloche = await session.connect();
  const { info } =
    name === undefined
      ? await cloche.sandboxes.get(id as string)
      : await cloche.sandboxes.getByName(name, present({ projectId: project }));
  await session.show(info, () => describe(info, session.terminal.out));
}

async function createSandbox(
  session: Session,
  { name, ...options }: SandboxOptions & PauseOptions & { wait: boolean; name?: string },
): Promise<void> {
  const cloche = await session.connect();
  using interruption = watchForInterruption();
  const { signal } = interruption;
  const body = { ...sandboxBody(options), ...pauseBody(options), ...present({ name }) };
  const sandbox = await madeDespite(signal, createWithTtl(cloche, body));
  try {
    if (options.wait) await sandbox.waitUntilReady({ signal });
    signal.throwIfAborted();
  } catch (error) {
    // The id was not printed, so the user could not destroy the sandbox.
    if (signal.aborted) await takeBack(session, sandbox, signal);
    throw error;
  }
  await session.show(sandbox.info, () => sandbox.id);
  const { status, templateSlug, expiresAt } = sandbox.info;
  await session.note(`${status}, ${templateSlug}, ends in ${formatEnd(expiresAt)}`);
}

interface ListFlags extends SelectionFlags {
  all?: boolean;
  paused?: boolean;
  status?: SandboxStatus;
  project?: string;
  name?: string;
  metadata?: Record<string, string>;
}

async function listSandboxes(session: Session, { all, project, ...flags }: ListFlags): Promise<void> {
  const cloche = await session.connect();
  const include = all ? 'historical' : undefined;
  const page = await cloche.sandboxes.list({ ...flags, projectId: project, include });
  const sandboxes = page.map(({ info }) => info);
  const text = () => sandboxTable(sandboxes, session.terminal.out);
  const none = 'No sandboxes. `cloche sandbox create` creates one.';
  await showPage(session, page, text, { data: sandboxes, none });
}

interface PauseFlags {
  memory?: (typeof MEMORY_MODES)[number];
  force?: boolean;
  retain?: number;
}

function pauseSandboxes(session: Session, { memory, force, retain }: PauseFlags, ids: string[]): Promise<void> {
  const body = present({ memory, force, retainMs: retain });
  const pause = (cloche: Cloche, params: SandboxParams) => cloche.call('pauseSandbox', { params, body });
  return changeEach(session, ids, pause, ({ expiresAt }) => `paused, ends in ${formatEnd(expiresAt)}`);
}

interface ResumeFlags {
  ttl?: number;
  memory?: (typeof RESTORE_MODES)[number];
}

function resumeSandboxes(session: Session, { ttl, memory }: ResumeFlags, ids: string[]): Promise<void> {
  const body = present({ ttlMs: ttl, memory });
  const resume = (cloche: Cloche, params: SandboxParams) => cloche.call('resumeSandbox', { params, body });
  return changeEach(session, ids, resume, (info) => `${statusText(info)}, ends in ${formatEnd(info.expiresAt)}`);
}

type SandboxParams = { sandboxId: SandboxInfo['id'] };

/** Changes every sandbox, even if some fail, and says what each has become. */
async function changeEach(
  session: Session,
  ids: readonly string[],
  change: (cloche: Cloche, params: SandboxParams) => Promise<{ sandbox: SandboxInfo }>,
  became: (info: SandboxInfo) => string,
): Promise<void> {
  const cloche = await session.connect();
  const changed = await Promise.allSettled(
    ids.map(async (id) => {
      const { sandbox } = await change(cloche, { sandboxId: id as SandboxInfo['id'] });
      await session.note(`${sandbox.id} ${became(sandbox)}`);
      return sandbox;
    }),
  );
  const data = changed.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  if (session.json) await session.show({ data }, () => '');
  const failed = changed.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}

function sandboxTable(sandboxes: readonly SandboxInfo[], out: TableOutput): string {
  const hasNames = sandboxes.some(({ name }) => name !== undefined);
  return table(
    sandboxes,
    [
      { title: 'ID', value: ({ id }) => id },
      ...(hasNames ? [{ title: 'NAME', value: ({ name = '-' }: SandboxInfo) => name }] : []),
      {
        title: 'STATUS',
        value: statusText,
        style: (cell, { status }, colors) => statusColor(status, colors)(cell),
      },
      { title: 'TEMPLATE', value: ({ templateSlug }) => templateSlug },
      { title: 'NETWORK', value: ({ networkPolicy }) => networkPolicy.mode },
      { title: 'CREATED', value: ({ createdAt }) => formatAge(createdAt) },
      { title: 'LEFT', value: (sandbox) => (isLive(sandbox) ? formatLeft(sandbox.expiresAt) : '-') },
      { title: 'METADATA', value: ({ metadata }) => labelsText(metadata) },
    ],
    out,
  );
}

function describe(info: SandboxInfo, out: TableOutput): string {
  const { mode, hosts } = info.networkPolicy;
  const { cpu, memoryMb, diskMb, pids } = info.resources;
  return fields(
    [
      ['id', info.id],
      ['name', info.name],
      ['status', statusText(info)],
      ['failed because', info.failureReason],
      ['template', `${info.templateSlug} ${info.templateVersion} (${info.templateVersionId})`],
      ['project', info.projectId],
      ['network', hosts ? `${mode}: ${hosts.join(', ')}` : mode],
      [
        'resources',
        `cpu ${cpu}, memory ${mebibytes(memoryMb)}, disk ${mebibytes(diskMb)}, ${counted(pids, 'process', 'processes')}`,
      ],
      ['metadata', Object.keys(info.metadata).length === 0 ? undefined : labelsText(info.metadata)],
      ['created', `${formatAge(info.createdAt)} (${info.createdAt})`],
      ['paused', info.paused && `${formatAge(info.paused.at)} (${info.paused.at}), memory ${info.paused.memory}`],
      ['pauses', pauseText(info)],
      ['ends', isLive(info) ? `in ${formatLeft(info.expiresAt)} (${info.expiresAt})` : undefined],
      ['destroyed', info.destroyedAt && `${formatAge(info.destroyedAt)}, ${reasonText(info.destroyedReason ?? '')}`],
    ],
    out,
  );
}

/** Says when the sandbox is paused by itself. */
function pauseText({ pause }: Partial<SandboxInfo>): string | undefined {
  // A service of an earlier release does not say it.
  if (!pause) return undefined;
  const { afterIdleMs, onExpiry, wake } = pause;
  const when = [
    ...(afterIdleMs === undefined ? [] : [`after ${formatDuration(afterIdleMs)} without use`]),
    ...(onExpiry ? ['at its end'] : []),
  ];
  if (when.length === 0 && wake === 'requests') return undefined;
  return [when.join(' and ') || 'when asked', `woken by ${WAKE_WORDS[wake]}`].join(', ');
}

function mebibytes(count: number): string {
  return formatBytes(count * 1024 * 1024);
}

function isLive({ status }: Pick<SandboxInfo, 'status'>): boolean {
  return !SANDBOX_STATUS_FACTS[status]?.isEnded;
}
