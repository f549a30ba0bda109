import type { FileUser } from '@cloche/contract';
import { type Command, Option } from 'commander';
import { leaf, perform } from '../command.ts';
import { copy } from '../copy/copy.ts';
import { findEndpoint } from '../copy/endpoint.ts';
import { watchForInterruption } from '../interruption.ts';
import { userOption } from '../option-values.ts';
import { formatBytes } from '../terminal/transfer-bar.ts';

export function addCopyCommand(program: Command): void {
  const cp = leaf(program, 'cp <from> <to>', 'Copy files and directories into, out of and between sandboxes', [
    'cloche cp data.csv sbx_…:/workspace/',
    'cloche cp sbx_…:results ./results',
    'cloche cp src/. sbx_…:/workspace/app',
    'pg_dump db | cloche cp - sbx_…:dump.sql',
    'cloche cp sbx_…:plot.png - | display',
    'cloche cp nginx.conf sbx_…:/etc/nginx/ --user root',
  ])
    .addOption(userOption())
    // Directories are always copied whole, with their modes; people type these from habit.
    .addOption(new Option('-r, --recursive').hideHelp())
    .addOption(new Option('-a, --archive').hideHelp());
  perform(cp, async (session, { user }: { user?: FileUser }, from: string, to: string) => {
    const [source, target] = [await findEndpoint(session, from), await findEndpoint(session, to)];
    const cloche = await session.connect();
    using interruption = watchForInterruption();
    const copied = await copy(session, cloche, source, target, { ...(user && { user }), signal: interruption.signal });
    // With `-`, standard output carries the file itself.
    if (target.kind === 'standard') return;
    if (session.json) await session.show(copied, () => '');
    const place = target.kind === 'sandbox' ? `${target.sandboxId}:` : '';
    await session.note(`${formatBytes(copied.bytes)} to ${place}${copied.to}`);
  });
}
