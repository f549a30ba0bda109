import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import { table } from '../terminal/table.ts';

export function addConfigCommand(program: Command): void {
  const config = leaf(program, 'config', 'Show the settings in force, secrets redacted');
  perform(config, async (session) => {
    // Loaded late, as no other command needs it.
    const { effectiveSettings, redacted } = await import('@cloche/setup');
    const settings = effectiveSettings(process.env).map((setting) => ({
      name: setting.name,
      value: redacted(setting),
      source: setting.source,
      doc: setting.doc,
    }));
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
