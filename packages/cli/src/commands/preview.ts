import type { Preview } from '@cloche/contract';
import { LIMITS, PREVIEW_VISIBILITIES } from '@cloche/contract/client';
import { type Page, Previews, previewLink, type SandboxInfo } from '@cloche/sdk';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { UsageError } from '../cli-error.ts';
import { leaf, perform } from '../command.ts';
import { showPage } from '../list-page.ts';
import { durationUpTo } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatLeft } from '../terminal/duration.ts';
import { table } from '../terminal/table.ts';

interface PreviewFlags {
  public?: boolean;
  ttl?: number;
  list?: boolean;
  close?: string;
}

export function addPreviewCommand(program: Command): void {
  const command = leaf(program, 'preview <sandbox>', 'Serve a port of a sandbox at a URL and print the URL', [
    'cloche preview sbx_… 8000',
    'cloche preview sbx_… 3000 --public --ttl 30m',
    'cloche preview sbx_… --list',
    'cloche preview sbx_… --close prv_…',
  ])
    .argument('[port]', 'from 1 to 65535', port)
    .option('--public', 'let anyone who has the URL open it')
    .option('--ttl <duration>', 'lifetime (default: that of the sandbox)', durationUpTo(LIMITS.updateTtlMaxMs))
    .addOption(new Option('--list', 'list open previews').conflicts(['public', 'ttl', 'close']))
    .addOption(new Option('--close <preview>', 'close this preview').conflicts(['public', 'ttl']));
  perform(command, preview);
}

async function preview(session: Session, flags: PreviewFlags, sandboxId: string, to?: number): Promise<void> {
  const previews = new Previews(await session.connect(), sandboxId as SandboxInfo['id']);
  if (flags.list) return showAll(session, await previews.list());
  if (flags.close !== undefined) {
    const closed = await previews.close(flags.close);
    if (session.json) await session.show(closed, () => '');
    return session.note(`${closed.id} closed`);
  }
  if (to === undefined) throw new UsageError('Give the port to serve, as in: cloche preview sbx_… 8000');
  const visibility = flags.public ? PREVIEW_VISIBILITIES[1] : PREVIEW_VISIBILITIES[0];
  const opened = await previews.open(to, { visibility, ttlMs: flags.ttl });
  await session.show(opened, () => previewLink(opened));
  await session.note(`${opened.visibility}, ${opened.id}, ends in ${formatLeft(opened.expiresAt)}`);
}

async function showAll(session: Session, data: Page<Preview>): Promise<void> {
  const columns = [
    { title: 'ID', value: ({ id }: Preview) => id },
    { title: 'PORT', value: ({ port: served }: Preview) => String(served) },
    { title: 'VISIBILITY', value: ({ visibility }: Preview) => visibility },
    { title: 'LEFT', value: ({ expiresAt }: Preview) => formatLeft(expiresAt) },
    { title: 'URL', value: ({ url }: Preview) => url },
  ];
  const text = () => table(data, columns, session.terminal.out.colors);
  await showPage(session, data, text, { none: 'No previews are open.' });
}

function port(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 65_535)
    throw new InvalidArgumentError('Give a number from 1 to 65535.');
  return value;
}
