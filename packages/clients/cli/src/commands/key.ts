import type { ApiKey, Scope } from '@cloche/contract';
import { ALL_SCOPES, LIMITS, SCOPES } from '@cloche/contract/client';
import type { ApiKeyWithSecret } from '@cloche/sdk';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { group, leaf, perform } from '../command.ts';
import { type PageFlags, paged, showPage } from '../list-page.ts';
import { duration, durationUpTo, list } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatAge, formatLeft } from '../terminal/duration.ts';
import { fields, table } from '../terminal/table.ts';

interface CreateFlags {
  scopes: string[];
  projects?: string[];
  expires?: number;
}

export function addKeyCommands(program: Command): void {
  const key = group(program, 'key', 'Create, list, rotate and revoke API keys');

  const create = leaf(key, 'create <name>', 'Create an API key and print it; it is not shown again', [
    'cloche key create ci --scopes sandbox:create,sandbox:read,code:run --expires 30d',
  ])
    .requiredOption('--scopes <scopes>', 'comma-separated scopes; * for all', list)
    .option('--projects <ids>', 'only for these projects, comma-separated', list)
    .option('--expires <duration>', 'lifetime, such as 30d (default: no end)', duration);
  perform(create, createKey);

  const all = leaf(key, 'list', 'List the API keys that work, newest first') //
    .option('-a, --all', 'include keys that were revoked or have expired');
  perform(paged(all), async (session, { all: includeRevoked = false, ...flags }: PageFlags & { all?: boolean }) => {
    const data = await (await session.connect()).apiKeys.list({ ...flags, includeRevoked });
    const none = 'No API keys. `cloche key create` creates one.';
    await showPage(session, data, () => table(data, COLUMNS, session.terminal.out), { none });
  });

  perform(leaf(key, 'get <key>', 'Show an API key'), async (session, _options, id: string) => {
    const found = await (await session.connect()).apiKeys.get(id);
    await session.show(found, () => fields(keyFields(found), session.terminal.out));
  });

  const rotate = leaf(key, 'rotate <key>', 'Replace an API key by a new one and print the new one', [
    'cloche key rotate key_… --grace 1h',
  ]).option('--grace <duration>', 'how long the old key still works; 0 for not at all (default: 1 day)', grace);
  perform(rotate, async (session, { grace: graceMs }: { grace?: number }, id: string) => {
    const { apiKeys } = await session.connect();
    await showSecret(session, await apiKeys.rotate(id, graceMs === undefined ? {} : { graceMs }));
  });

  perform(
    leaf(key, 'delete <key>', 'End an API key at once').alias('revoke'),
    async (session, _options, id: string) => {
      const revoked = await (await session.connect()).apiKeys.revoke(id);
      if (session.json) await session.show(revoked, () => '');
      await session.note(`${revoked.id} (${revoked.name}) revoked`);
    },
  );
}

/** Parses scopes. @throws {UsageError} for an unknown one */
export function scopesOf(names: readonly string[]): (Scope | typeof ALL_SCOPES)[] {
  return names.map((name) => {
    const scope = [ALL_SCOPES, ...SCOPES].find((known) => known === name);
    if (scope !== undefined) return scope;
    throw new UsageError(`There is no scope ${name}; use * or any of: ${SCOPES.join(' ')}.`);
  });
}

/** Returns names and values about a key for people. */
export function keyFields(key: ApiKey): [name: string, value: string | undefined][] {
  return [
    ['key', key.id],
    ['name', key.name],
    ['begins with', key.prefix],
    ['scopes', key.scopes.join(', ')],
    ['projects', key.projectIds?.join(', ') ?? 'all'],
    ['created', `${formatAge(key.createdAt)} by ${key.createdBy}`],
    ['rotated from', key.rotatedFrom],
    ['last used', key.lastUsedAt && formatAge(key.lastUsedAt)],
    ['expires', key.expiresAt && endOf(key.expiresAt)],
    ['revoked', key.revokedAt && formatAge(key.revokedAt)],
  ];
}

async function createKey(session: Session, { scopes, projects, expires }: CreateFlags, name: string): Promise<void> {
  const wanted = scopesOf(scopes);
  const { apiKeys } = await session.connect();
  const expiresAt = expires === undefined ? undefined : new Date(Date.now() + expires);
  await showSecret(session, await apiKeys.create({ name, scopes: wanted, projectIds: projects, expiresAt }));
}

async function showSecret(session: Session, made: ApiKeyWithSecret): Promise<void> {
  const { apiKey, secret } = made;
  await session.show(made, () => secret);
  const until = apiKey.expiresAt === undefined ? '' : `, ${endOf(apiKey.expiresAt)}`;
  await session.note(`${apiKey.id} (${apiKey.name}): ${apiKey.scopes.join(', ')}${until}; the key is not shown again`);
}

const COLUMNS = [
  { title: 'ID', value: ({ id }: ApiKey) => id },
  { title: 'NAME', value: ({ name }: ApiKey) => name },
  { title: 'BEGINS WITH', value: ({ prefix }: ApiKey) => prefix ?? '-' },
  { title: 'SCOPES', value: ({ scopes }: ApiKey) => summary(scopes) },
  { title: 'LAST USED', value: ({ lastUsedAt }: ApiKey) => (lastUsedAt === undefined ? '-' : formatAge(lastUsedAt)) },
  { title: 'ENDS', value: (key: ApiKey) => stateOf(key) },
];

/** Scopes that a row of the list has room for. */
const SCOPES_SHOWN = 3;

function summary(scopes: readonly string[]): string {
  const more = scopes.length - SCOPES_SHOWN;
  return more > 0 ? `${scopes.slice(0, SCOPES_SHOWN).join(', ')}, ${more} more` : scopes.join(', ');
}

function stateOf({ revokedAt, expiresAt }: ApiKey): string {
  if (revokedAt !== undefined) return `revoked ${formatAge(revokedAt)}`;
  return expiresAt === undefined ? '-' : endOf(expiresAt);
}

function endOf(expiresAt: string): string {
  return Date.parse(expiresAt) > Date.now() ? `in ${formatLeft(expiresAt)}` : `expired ${formatAge(expiresAt)}`;
}

function grace(text: string): number {
  return text === '0' ? 0 : durationUpTo(LIMITS.apiKeyGraceMaxMs)(text);
}
