import { DEFAULT_URL } from '@cloche/sdk';
import type { Command } from 'commander';
import { clientFilePath, readClientFile } from '../client-file.ts';
import { leaf, perform } from '../command.ts';
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
    const { colors } = session.terminal.out;
    await session.show({ data: settings }, () =>
      table(
        settings,
        [
          { title: 'SETTING', value: ({ name }) => name },
          { title: 'VALUE', value: ({ value }) => value || '-' },
          { title: 'FROM', value: ({ source }) => source },
          { title: 'WHAT IT IS', value: ({ doc }) => doc },
        ],
        colors,
      ),
    );
  });
}

async function shownSettings(): Promise<ShownSetting[]> {
  // Loaded late, because no other command needs it.
  const { effectiveSettings, redacted } = await import('@cloche/settings');
  const ofClient = await clientDefaults();
  return effectiveSettings(process.env).map((setting) => {
    const { name, source, doc } = setting;
    const fallback = source === 'default' ? ofClient[name] : undefined;
    if (fallback === undefined) return { name, value: redacted(setting), source, doc };
    return { name, value: redacted({ ...setting, value: fallback.value }), source: fallback.source, doc };
  });
}

/** Returns the client settings that the CLI uses if the environment sets none. */
async function clientDefaults(): Promise<Record<string, { value: string; source: string } | undefined>> {
  const { url, apiKey } = await readClientFile();
  const source = clientFilePath();
  return {
    CLOCHE_URL: url === undefined ? { value: DEFAULT_URL, source: 'default' } : { value: url, source },
    CLOCHE_API_KEY: apiKey === undefined ? undefined : { value: apiKey, source },
  };
}
