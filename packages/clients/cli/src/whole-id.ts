/** Short ids: what a person types in place of a whole id, and the requests that find out which one is meant. */
import { type Cloche, Commands, Contexts, Previews, type SandboxInfo } from '@cloche/sdk';
import { CliError, UsageError } from './cli-error.ts';

/** What an argument or option names, with the beginning of its ids. */
const PREFIXES = {
  sandbox: 'sbx_',
  job: 'wrun_',
  artifact: 'art_',
  project: 'prj_',
  secret: 'sec_',
  key: 'key_',
  webhook: 'whk_',
  command: 'cmd_',
  context: 'cctx_',
  preview: 'prv_',
} as const;
export type IdKind = keyof typeof PREFIXES;

/** Characters after the prefix of a whole id. */
const WHOLE_LENGTH = 20;
const SHORT = /^[0-9a-z]{4,19}$/;
const LAST = ['@last', '-'];
/** Ids that an error shows. */
const SHOWN = 5;

/** Returns the name of one of what an argument of several is named after, such as `sandbox` for `sandboxes`. */
export function singular(name: string): string {
  return name.replace(/(?<=[^s])s$|(?<=x)es$/, '');
}

/** Returns the short form of an id, for people. */
export function shortId(id: string): string {
  return /_([0-9a-z]{1,4})/.exec(id)?.[1] ?? '';
}

/** Returns whether ids of this kind may be short. */
export function isIdKind(name: string): name is IdKind {
  return Object.hasOwn(PREFIXES, name);
}

/**
 * Returns the id that `text` means: a whole id as it is, `@last` or `-` for the one that was created last, and four
 * characters or more of the beginning, with or without the prefix. Everything else stays as it is, for the service to
 * refuse.
 * @throws {UsageError} if several ids begin with it
 */
export async function wholeId(
  connect: () => Promise<Cloche>,
  kind: IdKind,
  text: string,
  sandboxId?: string,
): Promise<string> {
  const prefix = PREFIXES[kind];
  if (LAST.includes(text)) {
    const [last] = await beginningOf(await connect(), kind, '', sandboxId, 1);
    if (last === undefined) throw new CliError(`There is no ${kind} yet.`);
    return last;
  }
  const own = text.startsWith(prefix) ? text.slice(prefix.length) : text;
  if (!SHORT.test(own) || own.length >= WHOLE_LENGTH) return text;
  const found = await beginningOf(await connect(), kind, prefix + own, sandboxId, SHOWN + 1);
  if (found.length > 1) {
    const more = found.length > SHOWN ? ', …' : '';
    throw new UsageError(
      `More than one id begins with "${text}"; write more of it: ${found.slice(0, SHOWN).join(', ')}${more}.`,
    );
  }
  return found[0] ?? text;
}

/** Returns up to `limit` ids that begin with `idPrefix`, newest first. Without the right to list, returns none. */
export async function beginningOf(
  cloche: Cloche,
  kind: IdKind,
  idPrefix: string,
  sandboxId: string | undefined,
  limit: number,
): Promise<string[]> {
  const found: string[] = [];
  try {
    for (const entries of listsOf(cloche, kind, idPrefix, sandboxId, limit)) {
      for await (const { id } of entries) {
        if (id.startsWith(idPrefix)) found.push(id);
        if (found.length === limit) return found;
      }
      if (found.length > 0) return found;
    }
  } catch (error) {
    // The command itself says better what is wrong, or needs no list.
    if ((error as { code?: unknown }).code !== 'forbidden') throw error;
  }
  return found;
}

/** Returns the lists to look in, one after the other until one has such an id. */
export function listsOf(
  cloche: Cloche,
  kind: IdKind,
  idPrefix: string,
  inside: string | undefined,
  limit: number,
): AsyncIterable<{ readonly id: string }>[] {
  // Ids are opaque, so only the service can check them.
  const sandboxId = inside as SandboxInfo['id'];
  // The service looks for the beginning itself where there may be many.
  const selection = { limit, idPrefix: idPrefix === '' ? undefined : idPrefix };
  switch (kind) {
    case 'sandbox':
      return [cloche.sandboxes.list(selection), cloche.sandboxes.list({ ...selection, include: 'historical' })];
    case 'job':
      return [cloche.workspaceRuns.list(selection)];
    case 'artifact':
      return [cloche.artifacts.list()];
    case 'project':
      return [cloche.projects.list()];
    case 'secret':
      return [cloche.secrets.list()];
    case 'key':
      return [cloche.apiKeys.list()];
    case 'webhook':
      return [cloche.webhooks.list()];
    case 'command':
      return [new Commands(cloche, sandboxId).list()];
    case 'context':
      return [new Contexts(cloche, sandboxId).list()];
    case 'preview':
      return [new Previews(cloche, sandboxId).list()];
  }
}
