import type { Preview } from '@cloche/contract';
import { LIMITS, PREVIEW_VISIBILITIES } from '@cloche/contract/client';
import { type Page, Previews, previewLink, type SandboxInfo } from '@cloche/sdk';
import { type Command, InvalidArgumentError } from 'commander';
import { leaf, perform } from '../command.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { durationUpTo } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatEnd, formatLeft } from '../terminal/duration.ts';
import { table } from '../terminal/table.ts';

interface PreviewFlags {
  public?: boolean;
  ttl?: number;
}

export function addPreviewCommand(program: Command): void {
  const group = program.command('preview').description('Serve a port of a sandbox at a URL and print the URL');
  const create = leaf(
    group,
    'create <sandbox>',
    'Serve a port at a URL and print the URL; the word create may be left out',
    ['cloche preview sbx_… 8000', 'cloche preview create sbx_… 3000 --public --ttl 30m'],
    { isDefault: true },
  )
    .argument('<port>', 'from 1 to 65535', port)
    .option('--public', 'let anyone who has the URL open it')
    .option('--ttl <duration>', 'lifetime (default: that of the sandbox)', durationUpTo(LIMITS.updateTtlMaxMs));
  perform(create, openPreview);

  const all = leaf(group, 'list <sandbox>', 'List the open previews of a sandbox', ['cloche preview list sbx_…']);
  perform(paged(all), async (session, flags: PageFlags, sandboxId: string) => {
    await showAll(session, await (await previewsOf(session, sandboxId)).list(flags));
  });

  const close = leaf(group, 'delete <sandbox> <preview>', 'Close a preview', ['cloche preview delete sbx_… prv_…']);
  perform(close, async (session, _options, sandboxId: string, id: string) => {
    const closed = await (await previewsOf(session, sandboxId)).close(id);
    if (session.json) await session.show(closed, () => '');
    await session.note(`${closed.id} closed`);
  });
}

async function openPreview(session: Session, flags: PreviewFlags, sandboxId: string, to: number): Promise<void> {
  const visibility = flags.public ? PREVIEW_VISIBILITIES[1] : PREVIEW_VISIBILITIES[0];
  const opened = await (await previewsOf(session, sandboxId)).open(to, { visibility, ttlMs: flags.ttl });
  await session.show(opened, () => previewLink(opened));
  await session.note(`${opened.visibility}, ${opened.id}, ends in ${formatEnd(opened.expiresAt)}`);
}

async function previewsOf(session: Session, sandboxId: string): Promise<Previews> {
  return new Previews(await session.connect(), sandboxId as SandboxInfo['id']);
}

async function showAll(session: Session, data: Page<Preview>): Promise<void> {
  const columns = [
    { title: 'ID', value: ({ id }: Preview) => id },
    { title: 'PORT', value: ({ port: served }: Preview) => String(served) },
    { title: 'VISIBILITY', value: ({ visibility }: Preview) => visibility },
    { title: 'LEFT', value: ({ expiresAt }: Preview) => formatLeft(expiresAt) },
    { title: 'URL', value: ({ url }: Preview) => url },
  ];
  const text = () => table(data, columns, session.terminal.out);
  await showPage(session, data, text, { none: 'No previews are open.' });
}

function port(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 65_535)
    throw new InvalidArgumentError('Give a number from 1 to 65535.');
  return value;
}
