/** Renders the table of settings in docs/operating/settings.md. `node scripts/settings-table.ts` prints it. */
import { operatorSettings, type Setting, type SettingName } from '../packages/shared/settings/src/index.ts';

export function settingsTable(): string {
  return ['| setting | default | means |', '|---|---|---|', ...operatorSettings().map(row)].join('\n');
}

function row([name, setting]: [SettingName, Setting]): string {
  const { summary, more } = setting;
  const cells = [`\`${name}\``, shownDefault(setting), more === undefined ? summary : `${summary}. ${more}`];
  return `|${cells.map((cell) => (cell === '' ? ' ' : ` ${cell} `)).join('|')}|`;
}

function shownDefault({ default: value, defaultText, value: { unit } }: Setting): string {
  if (defaultText !== undefined) return defaultText;
  if (typeof value === 'string') return `\`${value}\``;
  return value === undefined ? '' : [value, unit].filter(Boolean).join(' ') + inDays(value, unit);
}

const DAY_MS = 86_400_000;

function inDays(value: number, unit: string | undefined): string {
  return unit === 'ms' && value >= DAY_MS ? ` (${value / DAY_MS} days)` : '';
}

if (import.meta.main) console.log(settingsTable());
