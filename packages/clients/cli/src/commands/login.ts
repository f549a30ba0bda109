import { text } from 'node:stream/consumers';
import { Cloche } from '@cloche/sdk';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { clientFilePath, readClientFile, writeClientFile } from '../client-file.ts';
import { leaf, perform } from '../command.ts';
import { askHidden } from '../hidden-line.ts';
import type { Session } from '../session.ts';
import { fields } from '../terminal/table.ts';
import { keyFields } from './key.ts';
import { UNNAMED } from './service.ts';

/** Time for the question which version the service has. */
const VERSION_MS = 5_000;

interface LoginFlags {
  name?: string;
}

export function addLoginCommands(program: Command): void {
  const login = leaf(program, 'login', 'Check an API key and save it for later commands of this user', [
    'cloche login --url https://cloche.example.com',
    'cloche login --name prod --url https://cloche.example.com',
    'cloche login < key-file',
  ]).option('--name <name>', 'save it beside others, for --service (default: the one that is used without --service)');
  perform(login, logIn);
  perform(
    leaf(program, 'whoami', 'Show the service and the API key in use, its organization and its project'),
    showKeyInUse,
  );
}

async function logIn(session: Session, { name }: LoginFlags): Promise<void> {
  if (name !== undefined && (name === UNNAMED || !/^[\w.-]{1,64}$/.test(name)))
    throw new UsageError(`--name takes letters, digits, dots, hyphens and underscores, and not "${UNNAMED}".`);
  const { url } = name === undefined ? await session.settings() : await session.settingsWithoutSaved();
  const apiKey = session.given.apiKey ?? (await readKey(session));
  const { organization } = await new Cloche({ url, apiKey }).apiKeys.current();
  const path = clientFilePath();
  const file = await readClientFile(path);
  const saved = { url, apiKey };
  await writeClientFile(
    name === undefined ? { ...file, ...saved } : { ...file, services: { ...file.services, [name]: saved } },
    path,
  );
  if (session.json) await session.show({ name, url, path, organization }, () => '');
  const use = name === undefined ? '' : `; use it with --service ${name}`;
  await session.note(`Logged in to ${url} (${organization.name}); the key is in ${path}${use}.`);
}

async function showKeyInUse(session: Session): Promise<void> {
  const cloche = await session.connect();
  const { url } = await session.settings();
  const [current, serviceVersion] = await Promise.all([cloche.apiKeys.current(), versionOf(url)]);
  const { apiKey, organization, project } = current;
  await session.show({ url, clientVersion: session.version, serviceVersion, ...current }, () =>
    fields(
      [
        ['service', url],
        ['version', `${serviceVersion ?? 'unknown'} (this client: ${session.version})`],
        ['organization', `${organization.name} (${organization.id})`],
        ['project', `${project.name} (${project.id})`],
        ...keyFields(apiKey),
      ],
      session.terminal.out,
    ),
  );
  if (serviceVersion !== undefined && serviceVersion !== session.version)
    await session.note('Client and service have different versions; use the client of the same release.');
}

/** Returns the version of the service; undefined if it does not say it. */
async function versionOf(url: string): Promise<string | undefined> {
  try {
    const response = await fetch(new URL('healthz', url.endsWith('/') ? url : `${url}/`), {
      redirect: 'manual',
      signal: AbortSignal.timeout(VERSION_MS),
    });
    const { version } = (await response.json()) as { version?: unknown };
    return typeof version === 'string' ? version : undefined;
  } catch {
    return undefined;
  }
}

/** Reads the key from standard input, or asks for it without showing what is typed. @throws {UsageError} if empty. */
async function readKey({ terminal }: Session): Promise<string> {
  const key = process.stdin.isTTY ? await askHidden('API key: ', terminal.err) : await text(process.stdin);
  const trimmed = key.trim();
  if (trimmed === '') throw new UsageError('No key was given; type one, or pipe it in: cloche login < key-file');
  return trimmed;
}
