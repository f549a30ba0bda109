import type { FileUser } from '@cloche/contract';
import type { FileEntry, Files } from '@cloche/sdk';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { group, leaf, perform } from '../command.ts';
import { findEndpoint } from '../copy/endpoint.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { userOption, wholeNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge } from '../terminal/duration.ts';
import { printable } from '../terminal/printable.ts';
import { type TableOutput, table } from '../terminal/table.ts';
import { formatBytes } from '../terminal/transfer-bar.ts';

interface FileFlags {
  user?: FileUser;
}

export function addFileCommands(program: Command): void {
  const files = group(program, 'files', 'List, move and delete files of a sandbox');

  const ls = leaf(files, 'list <sandbox:path>', 'List a directory', ['cloche files list sbx_…:/workspace --depth 3'])
    .alias('ls')
    .option('--depth <levels>', 'levels of subdirectories, 1 or more (default: 1)', wholeNumber)
    .addOption(userOption());
  perform(paged(ls), async (session, flags: FileFlags & PageFlags & { depth?: number }, place: string) => {
    const { at, path } = await reach(session, place);
    const entries = await at.list(path, flags);
    const text = () => entryTable(entries, session.terminal.out);
    await showPage(session, entries, text, { none: 'The directory is empty.' });
  });

  const mkdir = leaf(files, 'mkdir <sandbox:path>', 'Create a directory and its parents').addOption(userOption());
  perform(mkdir, async (session, flags: FileFlags, place: string) => {
    const { at, path } = await reach(session, place);
    await showEntry(session, await at.makeDirectory(path, flags));
  });

  const mv = leaf(files, 'mv <sandbox:path> <path>', 'Move or rename within a sandbox', [
    'cloche files mv sbx_…:draft.md final.md',
  ])
    .option('-f, --force', 'replace an existing file')
    .addOption(userOption());
  perform(mv, async (session, { force, user }: FileFlags & { force?: boolean }, place: string, to: string) => {
    const { at, path } = await reach(session, place);
    await showEntry(session, await at.move(path, to, { overwrite: force ?? false, user }));
  });

  const rm = leaf(files, 'delete <sandbox:path>', 'Delete a file or an empty directory')
    .alias('rm')
    .option('-r, --recursive', 'delete a directory with its content')
    .addOption(userOption());
  perform(rm, async (session, { recursive, user }: FileFlags & { recursive?: boolean }, place: string) => {
    const { at, path } = await reach(session, place);
    const removed = await at.remove(path, { recursive: recursive ?? false, user });
    await session.note(`${removed.path} deleted`);
    if (session.json) await session.show(removed, () => '');
  });
}

async function reach(session: Session, place: string): Promise<{ at: Files; path: string }> {
  const endpoint = await findEndpoint(session, place);
  if (endpoint.kind !== 'sandbox')
    throw new UsageError(`"${place}" is not a path in a sandbox; write SANDBOX:PATH, such as sbx_…:/workspace.`);
  const cloche = await session.connect();
  return { at: (await cloche.sandboxes.get(endpoint.sandboxId)).files, path: endpoint.path };
}

async function showEntry(session: Session, entry: FileEntry): Promise<void> {
  await session.show(entry, () => printable(entry.path));
}

function entryTable(entries: readonly FileEntry[], out: TableOutput): string {
  return table(
    entries,
    [
      { title: 'MODE', value: ({ mode }) => mode },
      { title: 'SIZE', value: ({ type, sizeBytes }) => (type === 'file' ? formatBytes(sizeBytes) : '-') },
      { title: 'MODIFIED', value: ({ modifiedAt }) => formatAge(modifiedAt) },
      {
        title: 'PATH',
        value: ({ path, type, target }) => path + (type === 'directory' ? '/' : '') + (target ? ` -> ${target}` : ''),
      },
    ],
    out,
  );
}
