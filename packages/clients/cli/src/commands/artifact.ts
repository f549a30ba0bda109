import { basename } from 'node:path';
import type { Artifact, FileUser } from '@cloche/contract';
import { LIMITS } from '@cloche/contract/client';
import { SandboxArtifacts, type SandboxInfo } from '@cloche/sdk';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';
import { group, leaf, perform } from '../command.ts';
import { saveFile, writeOut } from '../copy/save-file.ts';
import { watchForInterruption } from '../interruption.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { durationUpTo, keyValue, userOption } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge } from '../terminal/duration.ts';
import { labelsText } from '../terminal/labels-text.ts';
import { fields, type TableOutput, table } from '../terminal/table.ts';
import { formatBytes, TransferBar } from '../terminal/transfer-bar.ts';

interface ExportFlags {
  name?: string;
  type?: string;
  metadata?: Record<string, string>;
  user?: FileUser;
}

interface ListFlags extends PageFlags {
  sandbox?: string;
  project?: string;
  name?: string;
  metadata?: Record<string, string>;
}

export function addArtifactCommands(program: Command): void {
  const artifact = group(program, 'artifact', 'Export, list, download and delete artifacts');

  const exported = leaf(
    artifact,
    'export <sandbox> <path>',
    'Export a file or directory as an artifact and print its id',
    ['cloche artifact export sbx_… out/report.csv --metadata kind=report'],
  )
    .option('--name <name>', 'file name of a download (default: that of the file)')
    .option('--type <type>', 'media type (default: by the name)')
    .option('--metadata <key=value>', 'label; repeatable', keyValue)
    .addOption(userOption());
  perform(exported, exportArtifact);

  const list = leaf(artifact, 'list', 'List artifacts', ['cloche artifact list --sandbox sbx_…'])
    .option('--sandbox <id>', 'only artifacts of this sandbox')
    .option('--project <id>', 'only artifacts of this project')
    .option('--name <name>', 'only artifacts with this name')
    .option('--metadata <key=value>', 'only artifacts with this label; repeatable', keyValue);
  perform(paged(list), listArtifacts);

  const got = leaf(artifact, 'download <artifact> [file]', 'Download an artifact', [
    'cloche artifact download art_…',
    'cloche artifact download art_… - | head',
  ]).addHelpText(
    'after',
    '\nWrites to FILE, or to a new file with the name of the artifact. Use - for standard output.',
  );
  perform(got, downloadArtifact);

  perform(leaf(artifact, 'get <artifact>', 'Show an artifact'), async (session, _options, id: string) => {
    const found = await (await session.connect()).artifacts.get(id);
    await session.show(found, () => describe(found, session.terminal.out));
  });

  const linked = leaf(artifact, 'link <artifact>', 'Print a URL that downloads an artifact without a key', [
    'cloche artifact link art_… --ttl 24h',
  ]).option('--ttl <duration>', 'lifetime of the URL, at most 7d (default: 1h)', durationUpTo(LIMITS.downloadUrlMaxMs));
  perform(linked, async (session, { ttl }: { ttl?: number }, id: string) => {
    const cloche = await session.connect();
    const download = await cloche.artifacts.downloadUrl(id, { expiresInMs: ttl });
    await session.show(download, () => download.url);
  });

  perform(leaf(artifact, 'delete <artifacts...>', 'Delete artifacts'), async (session, _options, ids: string[]) => {
    const cloche = await session.connect();
    for (const id of ids) {
      const deleted = await cloche.artifacts.delete(id);
      if (session.json) await session.show(deleted, () => '');
      await session.note(`${deleted.id} deleted`);
    }
  });
}

async function exportArtifact(session: Session, flags: ExportFlags, sandboxId: string, path: string): Promise<void> {
  const artifacts = new SandboxArtifacts(await session.connect(), sandboxId as SandboxInfo['id']);
  const { name, type: contentType, metadata, user } = flags;
  const kept = await artifacts.export(path, { name, contentType, metadata, user });
  await session.show(kept, () => kept.id);
  await session.note(`${kept.name}, ${formatBytes(kept.sizeBytes)}, sha256 ${kept.sha256}`);
}

/**
 * Downloads an artifact. The file appears when all data has arrived, and replaces an existing file only if the user
 * named it.
 */
async function downloadArtifact(session: Session, _options: unknown, id: string, file?: string): Promise<void> {
  const cloche = await session.connect();
  using interruption = watchForInterruption();
  const { signal } = interruption;
  const artifact = await cloche.artifacts.get(id, { signal });
  if (file === undefined) ownName(artifact);
  const { body } = await cloche.artifacts.download(id, { signal });
  if (!body) throw new CliError('The service sent no content.');
  const bar = TransferBar.beside(session.terminal, artifact.name, { isStandard: file === '-' });
  const content = bar.count(body, artifact.sizeBytes);
  if (file === '-') return writeOut(content, session.terminal.out, signal);
  const place = file ?? ownName(artifact);
  await saveFile(place, content, { replace: file !== undefined, signal });
  if (session.json) await session.show({ to: place, bytes: bar.bytes }, () => '');
  await session.note(`${formatBytes(bar.bytes)} to ${place}`);
}

/**
 * Returns the artifact's name. Refuses a hidden name: sandboxed code may have chosen it, and a file such as `.bashrc`
 * or `.npmrc` would affect other programs.
 */
function ownName({ id, name }: Artifact): string {
  const last = basename(name);
  if (last !== '' && !last.startsWith('.')) return last;
  throw new CliError(
    `The name of the artifact, ${JSON.stringify(name)}, is that of a hidden file; give a file name: cloche artifact download ${id} FILE`,
  );
}

function describe(artifact: Artifact, out: TableOutput): string {
  const { createdAt, metadata } = artifact;
  return fields(
    [
      ['id', artifact.id],
      ['name', artifact.name],
      ['size', formatBytes(artifact.sizeBytes)],
      ['type', artifact.contentType],
      ['sha256', artifact.sha256],
      ['sandbox', artifact.sandboxId],
      ['project', artifact.projectId],
      ['metadata', labelsText(metadata) || undefined],
      ['created', `${formatAge(createdAt)} (${createdAt})`],
    ],
    out,
  );
}

async function listArtifacts(session: Session, { sandbox, project, ...flags }: ListFlags): Promise<void> {
  const cloche = await session.connect();
  const data = await cloche.artifacts.list({ ...flags, sandboxId: sandbox, projectId: project });
  const columns = [
    { title: 'ID', value: ({ id }: Artifact) => id },
    { title: 'NAME', value: ({ name: called }: Artifact) => called },
    { title: 'SIZE', value: ({ sizeBytes }: Artifact) => formatBytes(sizeBytes) },
    { title: 'TYPE', value: ({ contentType }: Artifact) => contentType },
    { title: 'CREATED', value: ({ createdAt }: Artifact) => formatAge(createdAt) },
    { title: 'SANDBOX', value: ({ sandboxId }: Artifact) => sandboxId },
  ];
  const text = () => table(data, columns, session.terminal.out);
  await showPage(session, data, text, { none: 'No artifacts. `cloche artifact export` creates one.' });
}
