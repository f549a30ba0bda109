/** The part that all lists with pages share: their options, and how a page is shown. */
import { LIMITS } from '@cloche/contract/client';
import type { Page } from '@cloche/sdk';
import { type Command, InvalidArgumentError } from 'commander';
import { wholeNumber } from './option-values.ts';
import type { Session } from './session.ts';

export interface PageFlags {
  limit?: number;
  cursor?: string;
}

/** Adds the options of a list that has pages. */
export function paged(command: Command): Command {
  return command
    .option('--limit <count>', `show at most so many, up to ${LIMITS.listPage} (default: all)`, pageLimit)
    .option('--cursor <cursor>', 'show what follows the page that printed this cursor');
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
  if (page.length === 0 && none !== undefined && !session.json) return session.note(none);
  await session.show({ data, hasMore, nextCursor }, forPeople);
  if (hasMore) await session.note(`More follow; to see them, repeat the command with --cursor ${nextCursor}`);
}

function pageLimit(text: string): number {
  const count = wholeNumber(text);
  if (count < 1 || count > LIMITS.listPage) throw new InvalidArgumentError(`Give 1 to ${LIMITS.listPage}.`);
  return count;
}
