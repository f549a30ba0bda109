/** The part that all lists with pages share: their options, and how a page is shown. */
import { LIMITS } from '@cloche/contract/client';
import type { Page } from '@cloche/sdk';
import { type Command, InvalidArgumentError } from 'commander';
import { time, wholeNumber } from './option-values.ts';
import type { Session } from './session.ts';
import { printable } from './terminal/printable.ts';

export interface PageFlags {
  limit?: number;
  cursor?: string;
}

/** Adds the options of a list that has pages. */
export function paged(command: Command): Command {
  return command
    .option('--limit <count>', `show at most so many, up to ${LIMITS.listPage} (default: all)`, pageLimit)
    .option('--cursor <cursor>', 'show what follows the page that printed this cursor')
    .option('--wide', 'show all columns, however narrow the terminal')
    .option('-q, --quiet', 'print ids alone');
}

export interface SelectionFlags extends PageFlags {
  idPrefix?: string;
  createdAfter?: Date;
  createdBefore?: Date;
}

/** Adds the options of a list that has pages and is filtered by id and time. */
export function selected(command: Command): Command {
  return paged(command)
    .option('--id-prefix <beginning>', 'only ids that begin so: the prefix and four characters or more')
    .option(
      '--created-after <time>',
      'only what was created after this time: 2026-01-31T09:00Z, or 2h for 2 h ago',
      time,
    )
    .option('--created-before <time>', 'only what was created before this time', time);
}

export interface ShownPage {
  /** The entries as JSON shows them. Default: as the page has them. */
  readonly data?: readonly unknown[];
  /** Text that replaces an empty table. */
  readonly none?: string;
}

/** Shows a page of a list, and how to see the next one. */
export async function showPage(
  session: Session,
  page: Page<unknown>,
  forPeople: () => string,
  { data = page, none }: ShownPage = {},
): Promise<void> {
  const { hasMore, nextCursor } = page;
  if (session.quiet && !session.json) {
    for (const entry of data) await session.terminal.out.line(printable(idOf(entry)));
    return;
  }
  if (page.length === 0 && none !== undefined && !session.json) return session.note(none);
  await session.show({ data, hasMore, nextCursor }, forPeople);
  if (hasMore) await session.note(`More follow; to see them, repeat the command with --cursor ${nextCursor}`);
}

/** Returns what other commands take for the entry: its id, its name for a template, or its path for a file. */
function idOf(entry: unknown): string {
  const { id, slug, path } = entry as { id?: string; slug?: string; path?: string };
  return slug ?? id ?? path ?? '';
}

function pageLimit(text: string): number {
  const count = wholeNumber(text);
  if (count < 1 || count > LIMITS.listPage) throw new InvalidArgumentError(`Give 1 to ${LIMITS.listPage}.`);
  return count;
}
