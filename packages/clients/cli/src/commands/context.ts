import { type ContextInfo, Contexts, type Language } from '@cloche/sdk';
import type { Command } from 'commander';
import { group, leaf, perform } from '../command.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { language } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge } from '../terminal/duration.ts';
import { table } from '../terminal/table.ts';

export function addContextCommands(program: Command): void {
  const context = group(program, 'context', 'Manage contexts, which keep variables between runs');

  const create = leaf(context, 'create <sandbox>', 'Create a context and print its id', [
    'cloche context create sbx_… --language typescript',
    'cloche run --sandbox sbx_… --context cctx_… cell.ts',
  ])
    .option('-l, --language <language>', 'python, javascript or typescript', language, 'python')
    .option('--cwd <folder>', 'working directory, inside /workspace (default: /workspace)');
  perform(create, async (session, options: { language: Language; cwd?: string }, sandboxId: string) => {
    const { info } = await (await contextsOf(session, sandboxId)).create(options);
    await session.show(info, () => info.id);
  });

  const list = leaf(context, 'list <sandbox>', 'List the active contexts');
  perform(paged(list), async (session, flags: PageFlags, sandboxId: string) => {
    const page = await (await contextsOf(session, sandboxId)).list(flags);
    const contexts = page.map(({ info }) => info);
    const none = 'No contexts yet. The first run creates a default one.';
    await showPage(session, page, () => contextTable(contexts, session), { data: contexts, none });
  });

  addAction(context, 'delete', 'Delete a context and end its current run', 'deleteContext');
  addAction(context, 'interrupt', 'Stop the current run and keep the variables', 'interruptContext');
  addAction(context, 'restart', 'Restart the kernel; variables are lost', 'restartContext');
}

function addAction(
  parent: Command,
  verb: string,
  summary: string,
  operation: 'deleteContext' | 'interruptContext' | 'restartContext',
): void {
  const command = leaf(parent, `${verb} <sandbox> <context>`, summary);
  perform(command, async (session, _options, sandboxId: string, contextId: string) => {
    const cloche = await session.connect();
    const { context } = await cloche.call(operation, { params: typedIds(sandboxId, contextId) });
    if (session.json) await session.show(context, () => '');
    await session.note(`${context.id} ${verb === 'delete' ? 'deleted' : `${verb}ed`}`);
  });
}

async function contextsOf(session: Session, sandboxId: string): Promise<Contexts> {
  return new Contexts(await session.connect(), typedIds(sandboxId, '').sandboxId);
}

/** Casts the ids. Ids are opaque, so only the service can check them. */
function typedIds(
  sandboxId: string,
  contextId: string,
): { sandboxId: ContextInfo['sandboxId']; contextId: ContextInfo['id'] } {
  return { sandboxId: sandboxId as ContextInfo['sandboxId'], contextId: contextId as ContextInfo['id'] };
}

function contextTable(contexts: readonly ContextInfo[], session: Session): string {
  return table(
    contexts,
    [
      { title: 'ID', value: ({ id }) => id },
      { title: 'LANGUAGE', value: ({ language }) => language },
      { title: 'DEFAULT', value: ({ isDefault }) => (isDefault ? 'yes' : 'no') },
      { title: 'CREATED', value: ({ createdAt }) => formatAge(createdAt) },
      { title: 'FOLDER', value: ({ cwd }) => cwd },
    ],
    session.terminal.out,
  );
}
