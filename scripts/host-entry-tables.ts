/**
 * Renders the rules of host entries as the tables of docs/network-policy.md. `node scripts/host-entry-tables.ts` prints
 * them.
 */
import { ACCEPTED_HOST_FORMS, REFUSED_HOST_FORMS } from '@cloche/contract';

const LONGEST_SHOWN = 24;
/** The contract has further examples of each form, which its tests try. */
const MOST_SHOWN = 2;

export function hostEntryTables(): string {
  return [
    '| accepted | covers | such as |',
    '|---|---|---|',
    ...ACCEPTED_HOST_FORMS.map(({ form, covers, examples }) => `| ${form} | ${covers} | ${shown(examples)} |`),
    '',
    '| refused | because the entry … | such as |',
    '|---|---|---|',
    ...REFUSED_HOST_FORMS.map(({ form, reason, examples }) => `| ${form} | ${reason} | ${shown(examples)} |`),
  ].join('\n');
}

function shown(examples: readonly string[]): string {
  const first = examples.slice(0, MOST_SHOWN);
  return first.map((text) => `\`${JSON.stringify(cut(text))}\``).join(' ');
}

function cut(text: string): string {
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
}

if (import.meta.main) console.log(hostEntryTables());
