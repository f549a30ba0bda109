import { basename, join, resolve } from 'node:path';
import { entryPath } from '@cloche/archive';
import { DEFAULT_CWD } from '@cloche/contract/client';
import type { Artifact, Cloche } from '@cloche/sdk';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import { leaf, perform } from '../command.ts';
import { saveFile } from '../copy/save-file.ts';
import { watchForInterruption } from '../interruption.ts';
import type { Session } from '../session.ts';
import { table } from '../terminal/table.ts';
import { formatBytes, TransferBar } from '../terminal/transfer-bar.ts';

export function addJobArtifactsCommand(job: Command): void {
  const artifacts = leaf(job, 'artifacts <job>', 'List or download the artifacts of a job', [
    'cloche job artifacts wrun_… --download results',
  ])
    .option('--download <folder>', 'write them to this folder, by their paths in the workspace')
    .addHelpText('after', '\nExisting files are not replaced.');
  perform(artifacts, jobArtifacts);
}

async function jobArtifacts(session: Session, { download }: { download?: string }, id: string): Promise<void> {
  using interruption = watchForInterruption();
  const { signal } = interruption;
  const cloche = await session.connect();
  const data = await (await cloche.workspaceRuns.get(id, { signal })).artifacts({ signal });
  if (data.length === 0) await session.note(`${id} has no artifacts.`);
  if (download !== undefined) {
    for (const artifact of data) await save(session, cloche, artifact, download, signal);
    return;
  }
  if (data.length === 0 && !session.json) return;
  const columns = [
    { title: 'ID', value: ({ id: artifactId }: Artifact) => artifactId },
    { title: 'PATH', value: (artifact: Artifact) => pathOf(artifact) },
    { title: 'SIZE', value: ({ sizeBytes }: Artifact) => formatBytes(sizeBytes) },
  ];
  await session.show({ data }, () => table(data, columns, session.terminal.out));
}

async function save(
  session: Session,
  cloche: Cloche,
  artifact: Artifact,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  // SECURITY: the job chose the path, which must not lead out of the folder (job.test.ts).
  const path = join(folder, entryPath(pathOf(artifact)));
  const { body } = await cloche.artifacts.download(artifact.id, { signal });
  if (!body) throw new CliError('The service sent no content.');
  const bar = new TransferBar(session.terminal.err, path);
  await saveFile(path, bar.count(body, artifact.sizeBytes), { replace: false, signal });
  if (session.json) await session.show({ artifactId: artifact.id, to: resolve(path), bytes: bar.bytes }, () => '');
  await session.note(`${formatBytes(bar.bytes)} to ${path}`);
}

/** Returns the path relative to the workspace. */
function pathOf({ path, name }: Artifact): string {
  if (path === undefined) return basename(name);
  return path.startsWith(`${DEFAULT_CWD}/`) ? path.slice(DEFAULT_CWD.length + 1) : path;
}
