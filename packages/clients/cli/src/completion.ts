/** Candidates for the last word of an unfinished command line. */
import { LANGUAGES, NETWORK_MODES, SANDBOX_STATUSES } from '@cloche/contract/client';
import { Cloche } from '@cloche/sdk';
import type { Command, Option } from 'commander';
import { readClientFile } from './client-file.ts';
import { buildProgram } from './program.ts';
import { serviceSettings } from './session.ts';
import { printable } from './terminal/printable.ts';
import { statusText } from './terminal/status-text.ts';
import type { Terminal } from './terminal/terminal.ts';
import { type IdKind, isIdKind, listsOf, singular } from './whole-id.ts';

export interface Candidate {
  readonly word: string;
  /** What the word is, in a few words. */
  readonly is: string;
}

/** Ids that are offered. */
const OFFERED = 50;
/** Time for a list: a person waits for the shell. */
const ANSWER_MS = 1_000;

/** Values of options whose parser takes more than a list of words. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  language: LANGUAGES,
  network: NETWORK_MODES,
  status: SANDBOX_STATUSES,
};

/** Where the last word stands. */
interface Place {
  readonly command: Command;
  /** Operands before it that are not names of commands. */
  readonly operands: readonly string[];
  /** The option whose value it is. */
  readonly option: Option | undefined;
}

/** Returns the candidates for the last of `words`, which follow `cloche`. Returns none where something fails. */
export async function completionsOf(words: readonly string[], terminal: Terminal): Promise<Candidate[]> {
  const last = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  try {
    const place = placeOf(await buildProgram('', before.length === 0 ? [''] : before, terminal), before);
    const found = await candidatesFor(place, last, before);
    return found
      .filter(({ word }) => word.startsWith(last))
      .map(({ word, is }) => ({ word: printable(word), is: printable(is) }));
  } catch {
    return [];
  }
}

function placeOf(program: Command, before: readonly string[]): Place {
  let command = program;
  let operands: string[] = [];
  let option: Option | undefined;
  for (const word of before) {
    if (option) option = undefined;
    else if (word.startsWith('-'))
      option = optionsOf(command).find((each) => [each.short, each.long].includes(word) && each.required);
    else {
      const named = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
      if (named && operands.length === 0) command = named;
      else operands = [...operands, word];
    }
  }
  return { command, operands, option };
}

function optionsOf(command: Command): Option[] {
  return [...command.options, ...(command.parent ? optionsOf(command.parent) : [])];
}

async function candidatesFor(place: Place, last: string, before: readonly string[]): Promise<Candidate[]> {
  const { command, operands, option } = place;
  if (option) return valuesOf(option, last, operands[0], before);
  const help = command.createHelp();
  if (last.startsWith('-'))
    return help
      .visibleOptions(command)
      .map(({ long, short, description }) => ({ word: long ?? short ?? '', is: description }));
  const commands = operands.length > 0 ? [] : help.visibleCommands(command);
  const names = commands.map((each) => ({ word: each.name(), is: each.description() }));
  // A group may stand for one of its commands, as `preview` does for `preview create`.
  const called = commands.length === 0 ? command : undefined;
  const argument =
    called?.registeredArguments[operands.length] ?? called?.registeredArguments.find((each) => each.variadic);
  if (argument?.argChoices) return argument.argChoices.map((word) => ({ word, is: '' }));
  if (argument === undefined) return names;
  return entriesOf(singular(argument.name()), last, operands[0], before);
}

async function valuesOf(option: Option, last: string, sandboxId: string | undefined, before: readonly string[]) {
  if (option.long === '--service')
    return Object.entries((await readClientFile()).services).map(([word, { url = '' }]) => ({ word, is: url }));
  const values = option.argChoices ?? VALUES[option.attributeName()];
  if (values) return values.map((word) => ({ word, is: '' }));
  return entriesOf(option.attributeName(), last, sandboxId, before);
}

/** Returns entries of the service that an argument or option of this name takes. */
async function entriesOf(
  name: string,
  last: string,
  sandboxId: string | undefined,
  before: readonly string[],
): Promise<Candidate[]> {
  const isPath = name === 'sandbox:path' || name === 'from' || name === 'to';
  const kind = isPath ? 'sandbox' : name;
  if (kind !== 'template' && !isIdKind(kind)) return [];
  if (isPath && (last.includes(':') || last.includes('/'))) return [];
  const options = { timeoutMs: ANSWER_MS, maxRetries: 0 };
  const cloche = new Cloche({ ...(await serviceSettings(givenSettings(before))), ...options });
  if (kind === 'template')
    return (await cloche.templates.list()).map(({ slug, description }) => ({ word: slug, is: description }));
  const found = await idsOf(cloche, kind, last, sandboxId);
  return isPath ? found.map(({ word, is }) => ({ word: `${word}:`, is })) : found;
}

async function idsOf(cloche: Cloche, kind: IdKind, last: string, sandboxId: string | undefined): Promise<Candidate[]> {
  const isBeginning = /^[a-z]+_[0-9a-z]{4,}$/.test(last);
  const [live] = listsOf(cloche, kind, isBeginning ? last : '', sandboxId, OFFERED);
  const found: Candidate[] = [];
  for await (const entry of live ?? []) {
    found.push({ word: entry.id, is: descriptionOf(entry) });
    if (found.length === OFFERED) break;
  }
  return found;
}

interface Described {
  readonly status?: string;
  readonly paused?: object;
  readonly templateSlug?: string;
  readonly name?: string;
  readonly language?: string;
  readonly command?: string | readonly string[];
}

/** Returns what is worth knowing of a record, which an object of the SDK has in `info`. */
function descriptionOf(entry: object): string {
  const described: Described = 'info' in entry ? (entry.info as object) : entry;
  const { status, paused, templateSlug, name, language, command } = described;
  const words = typeof command === 'object' ? command.join(' ') : command;
  return [status && statusText({ status, paused }), templateSlug, name, language, words]
    .filter(Boolean)
    .join(' ')
    .slice(0, 60);
}

/** Returns the service, address and key that the line itself gives. */
function givenSettings(before: readonly string[]): { service?: string; url?: string; apiKey?: string } {
  const optionValue = (flag: string) => before[before.indexOf(flag) + 1];
  return {
    ...(before.includes('--service') && { service: optionValue('--service') ?? '' }),
    ...(before.includes('--url') && { url: optionValue('--url') ?? '' }),
    ...(before.includes('--api-key') && { apiKey: optionValue('--api-key') ?? '' }),
  };
}
