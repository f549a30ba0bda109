import { WORKSPACE_RUN_STATUSES } from '@cloche/contract/client';
import type { WorkspaceRunInfo, WorkspaceRunStatus } from '@cloche/sdk';
import { type Command, Option } from 'commander';
import { group, leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { type SelectionFlags, selected, showPage } from '../list-page.ts';
import { keyValue, withRaw } from '../option-values.ts';
import type { Session } from '../session.ts';
import { counted } from '../terminal/counted.ts';
import { formatAge, formatDuration } from '../terminal/duration.ts';
import { labelsText } from '../terminal/labels-text.ts';
import { statusColor } from '../terminal/status-color.ts';
import { fields, table } from '../terminal/table.ts';
import type { Colors } from '../terminal/terminal.ts';
import { formatBytes } from '../terminal/transfer-bar.ts';
import { addJobArtifactsCommand } from './job-artifacts.ts';
import { followJob, printEvent, reportEnd } from './job-output.ts';
import { addJobRunCommand } from './job-run.ts';

interface ListFlags extends SelectionFlags {
  status?: WorkspaceRunStatus;
  project?: string;
  metadata?: Record<string, string>;
}

export function addJobCommands(program: Command): void {
  const job = group(program, 'job', 'Run commands on a directory of this machine, in sandboxes of their own');
  addJobRunCommand(job);

  const list = leaf(job, 'list', 'List jobs, newest first', ['cloche job list --status running'])
    .addOption(new Option('--status <status>', 'only jobs with this status').choices(WORKSPACE_RUN_STATUSES))
    .option('--project <id>', 'only jobs of this project')
    .option('--metadata <key=value>', 'only jobs with this label; repeatable', keyValue);
  perform(selected(list), listJobs);

  perform(leaf(job, 'get <job>', 'Show a job'), async (session, _options, id: string) => {
    const { info } = await (await session.connect()).workspaceRuns.get(id);
    await session.show(info, () => describe(info, session));
  });

  const logs = leaf(job, 'logs <job>', 'Print the output of a job', ['cloche job logs -f wrun_…']).option(
    '-f, --follow',
    'follow until the job ends, and exit with the exit code of its command',
  );
  perform(withRaw(logs), printLogs);

  const cancel = leaf(job, 'cancel <jobs...>', 'Cancel jobs', ['cloche job cancel wrun_…']);
  perform(cancel, async (session, _options, ids: string[]) => {
    const { workspaceRuns } = await session.connect();
    for (const id of ids) {
      const run = await (await workspaceRuns.get(id)).cancel();
      if (session.json) await session.show(run.info, () => '');
      await session.note(`${run.id} ${run.isFinished ? stateOf(run.info) : 'is being canceled'}`);
    }
  });

  addJobArtifactsCommand(job);
}

async function listJobs(session: Session, { project, ...flags }: ListFlags): Promise<void> {
  const { workspaceRuns } = await session.connect();
  const page = await workspaceRuns.list({ ...flags, projectId: project });
  const jobs = page.map(({ info }) => info);
  const text = () => table(jobs, COLUMNS, session.terminal.out);
  await showPage(session, page, text, { data: jobs, none: 'No jobs. `cloche job run -- COMMAND` runs one.' });
}

async function printLogs(session: Session, { follow }: { follow?: boolean }, id: string): Promise<void> {
  using interruption = watchForInterruption({ follows: follow ?? false });
  const { signal } = interruption;
  const run = await (await session.connect()).workspaceRuns.get(id, { signal });
  if (follow) {
    await followJob(session, run, signal);
    return reportEnd(session, run);
  }
  for (let afterSeq = 0, hasMore = true; hasMore; ) {
    const page = await run.listEvents({ afterSeq, signal });
    for (const event of page.data) await printEvent(session, event);
    ({ nextSeq: afterSeq, hasMore } = page);
  }
}

const COLUMNS = [
  { title: 'ID', value: ({ id }: WorkspaceRunInfo) => id },
  {
    title: 'STATUS',
    value: ({ status }: WorkspaceRunInfo) => status,
    style: (cell: string, { status }: WorkspaceRunInfo, colors: Colors) => statusColor(status, colors)(cell),
  },
  { title: 'EXIT', value: ({ exitCode }: WorkspaceRunInfo) => (exitCode === undefined ? '-' : String(exitCode)) },
  { title: 'CREATED', value: ({ createdAt }: WorkspaceRunInfo) => formatAge(createdAt) },
  { title: 'TOOK', value: (run: WorkspaceRunInfo) => tookOf(run) ?? '-' },
  { title: 'COMMAND', value: (run: WorkspaceRunInfo) => commandOf(run) },
];

function describe(run: WorkspaceRunInfo, session: Session): string {
  const { archive, error, metadata } = run;
  return fields(
    [
      ['id', run.id],
      ['command', commandOf(run)],
      ['status', stateOf(run)],
      ['error', error && `${error.code}: ${error.message}`],
      ['took', tookOf(run)],
      ['project', run.projectId],
      ['template', `${run.templateSlug} (${run.templateVersionId})`],
      ['sandbox', run.sandboxId],
      [
        'archive',
        archive &&
          `${archive.format}, ${formatBytes(archive.sizeBytes)}, ${counted(archive.entries, 'entry', 'entries')}`,
      ],
      ['artifacts', run.artifactIds.length > 0 ? String(run.artifactIds.length) : undefined],
      ['metadata', labelsText(metadata) || undefined],
      ['created', `${formatAge(run.createdAt)} (${run.createdAt})`],
      ['finished', run.finishedAt && `${formatAge(run.finishedAt)} (${run.finishedAt})`],
    ],
    session.terminal.out,
  );
}

function stateOf({ status, exitCode, signal }: WorkspaceRunInfo): string {
  if (signal !== undefined) return `${status} (${signal})`;
  return exitCode === undefined || exitCode === 0 ? status : `${status} (exit code ${exitCode})`;
}

function commandOf({ command }: WorkspaceRunInfo): string {
  return typeof command === 'string' ? command : command.join(' ');
}

function tookOf({ startedAt, finishedAt }: WorkspaceRunInfo): string | undefined {
  if (startedAt === undefined) return undefined;
  const endMs = finishedAt === undefined ? Date.now() : Date.parse(finishedAt);
  return formatDuration(endMs - Date.parse(startedAt));
}
