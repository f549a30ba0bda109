import { DEFAULT_URL } from '@cloche/sdk';
import type { Command } from 'commander';
import { clientFilePath, readClientFile } from '../client-file.ts';
import { leaf, perform } from '../command.ts';
import { findHostCommands } from '../host-commands.ts';
import { table } from '../terminal/table.ts';

interface ShownSetting {
  name: string;
  value: string | undefined;
  source: string;
  doc: string;
}

export function addConfigCommand(program: Command): void {
  const config = leaf(program, 'config', 'Show the current settings, with secrets redacted');
  perform(config, async (session) => {
    const settings = await shownSettings();
    const { out } = session.terminal;
    await session.show({ data: settings }, () =>
      table(
        settings,
        [
          { title: 'SETTING', value: ({ name }) => name },
          { title: 'VALUE', value: ({ value }) => value || '-' },
          { title: 'FROM', value: ({ source }) => source },
          { title: 'WHAT IT IS', value: ({ doc }) => doc },
        ],
        out,
      ),
    );
  });
}

async function shownSettings(): Promise<ShownSetting[]> {
  const ofClient = await clientSettings();
  const host = await findHostCommands();
  if (!host) return ofClient.map(({ secret, ...setting }) => ({ ...setting, value: shown(setting.value, secret) }));
  return host.hostSettings(process.env).map(({ redact, ...setting }) => {
    const own = ofClient.find(({ name }) => name === setting.name);
    if (own?.value === undefined || setting.source !== 'default') return setting;
    return { ...setting, value: redact(own.value), source: own.source };
  });
}

function shown(value: string | undefined, isSecret: boolean): string | undefined {
  return isSecret && value !== undefined ? '(redacted)' : value;
}

/** Returns the settings of the command line itself. */
async function clientSettings(): Promise<(ShownSetting & { secret: boolean })[]> {
  const { url, apiKey } = await readClientFile();
  const { CLOCHE_URL, CLOCHE_API_KEY } = process.env;
  const from = (set: string | undefined, stored: string | undefined) =>
    set ? { value: set, source: 'environment' } : { value: stored, source: stored ? clientFilePath() : 'default' };
  const address = from(CLOCHE_URL, url);
  return [
    {
      name: 'CLOCHE_URL',
      ...address,
      value: address.value ?? DEFAULT_URL,
      doc: 'address of the service',
      secret: false,
    },
    { name: 'CLOCHE_API_KEY', ...from(CLOCHE_API_KEY, apiKey), doc: 'API key', secret: true },
  ];
}
