import { text } from 'node:stream/consumers';
import { Cloche } from '@cloche/sdk';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { clientFilePath, writeClientFile } from '../client-file.ts';
import { leaf, perform } from '../command.ts';
import type { Session } from '../session.ts';
import { askHidden } from '../terminal/hidden-line.ts';
import { printable } from '../terminal/printable.ts';
import { describeKey } from './key.ts';

export function addLoginCommands(program: Command): void {
  const login = leaf(program, 'login', 'Check an API key and save it for later commands of this user', [
    'cloche login --url https://cloche.example.com',
    'cloche login < key-file',
  ]);
  perform(login, async (session) => {
    const { url } = await session.settings();
    const apiKey = session.givenKey ?? (await readKey(session));
    const { organization } = await new Cloche({ url, apiKey }).apiKeys.current();
    const path = clientFilePath();
    await writeClientFile({ url, apiKey }, path);
    if (session.json) await session.show({ url, path, organization }, () => '');
    await session.note(`Logged in to ${url} (${organization.name}); the key is in ${path}.`);
  });

  perform(leaf(program, 'whoami', 'Show the API key in use, its organization and its project'), async (session) => {
    const cloche = await session.connect();
    const current = await cloche.apiKeys.current();
    const { apiKey, organization, project } = current;
    await session.show(current, () =>
      [
        printable(`${organization.name} (${organization.id}), project ${project.name} (${project.id})`),
        describeKey(apiKey, session),
      ].join('\n'),
    );
  });
}

/** Reads the key from standard input, or asks for it without showing what is typed. @throws {UsageError} if empty. */
async function readKey({ terminal }: Session): Promise<string> {
  const key = process.stdin.isTTY ? await askHidden('API key: ', terminal.err) : await text(process.stdin);
  const trimmed = key.trim();
  if (trimmed === '') throw new UsageError('No key was given; type one, or pipe it in: cloche login < key-file');
  return trimmed;
}
