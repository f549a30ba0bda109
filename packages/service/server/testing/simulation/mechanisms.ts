/** Mechanisms of the product that a control switches off, to show that the simulation finds what they prevent. */

import type { RunCell } from '@cloche/runtime';
import { ContentRemovals } from '../../src/features/artifacts/content-removals.ts';
import { PauseMoves } from '../../src/features/pauses/pause-moves.ts';
import { KeyCaches } from '../../src/platform/keys/key-caches.ts';
import { replace } from './replace.ts';

export const MECHANISMS = [
  /** A server that has lost its lease ends its work. */
  'fence',
  /** An agent ends the run of a lower claim, and refuses one that comes late. */
  'claim of a run',
  /** Only the owner of a claim stores the answer. */
  'owner of an answer',
  /** A claim takes the records of dead servers alone. */
  'lease of a claim',
  /** A heartbeat fails claims of which its server does not know. */
  'failing of unheld claims',
  /** A stop names the generation of the instance. */
  'generation of a stop',
  /** Changes that read before they write do so in one transaction. */
  'transactions',
  /** The end of an idle sandbox is written only if the sandbox is as it was read. */
  'status of a transition',
  /** A move into or out of a pause is written only if the record is as it was read. */
  'epoch of a move',
  /** A server finishes the move of one that has ended, or gives it up. */
  'settling of a move',
  /** A revocation is answered when no server uses what it remembers of the key. */
  'answer of a revocation',
  /** A server works on a workspace run, a build or a webhook only while it has claimed the row. */
  'claim of a row',
  /** A server that has lost its claim of a row writes nothing to it. */
  'owner of a row',
  /** The first ending of a command stays. */
  'first ending of a command',
  /** A content is not used while a request to remove it may still arrive. */
  'removal of a content',
  /** The host removes no version that it has made again since the server saw it. */
  'time of making',
  /** A version made lately is not removed while a build may be about to add it. */
  'builds before a removal',
] as const;
export type Mechanism = (typeof MECHANISMS)[number];

/** Changes the text of statements, so that they do without a mechanism. */
const REWRITES: Partial<Record<Mechanism, readonly [RegExp, string]>> = {
  'owner of an answer': [
    /^(update "idempotency_records" set "state" = \?, "response_status".*)"owner" = \? and "state" = \?$/,
    '$1("owner" = ? or 1) and ("state" = ? or 1)',
  ],
  'lease of a claim': [
    /not exists \(select "id" from "server_leases"/,
    '1 or not exists (select "id" from "server_leases"',
  ],
  'claim of a row': [/\("claimed_by" is null or "claimed_until" <= \?\)/, '("claimed_by" is null or ? or 1)'],
  'owner of a row': [/"claimed_by" = \?(?=$| returning)/, '("claimed_by" = ? or 1)'],
  'builds before a removal': [
    /^(select "id" from "template_builds" where "status" in \([^)]*\)) limit/,
    '$1 and 0 limit',
  ],
  'first ending of a command': [/^(update "commands" set "status" = .*)"status" = \?/, '$1("status" = ? or 1)'],
  'epoch of a move': [
    /^(update "sandboxes" set .*"pause_epoch" = "pause_epoch" \+ .*)"pause_epoch" = \?/,
    '$1("pause_epoch" = ? or 1)',
  ],
  'status of a transition': [
    /^(update "sandboxes" set "status" = .*"generation" = \? and )"status" = \?/,
    '$1("status" = ? or 1)',
  ],
};

export function rewritten(sql: string, without: ReadonlySet<Mechanism>): string {
  let text = sql;
  for (const mechanism of without) {
    const rewrite = REWRITES[mechanism];
    if (rewrite) text = text.replace(...rewrite);
  }
  return text;
}

/** Returns the request of a run as an agent gets it. */
export function runRequest(cell: RunCell, without: ReadonlySet<Mechanism>): RunCell {
  if (!without.has('claim of a run') || !cell.operation) return cell;
  return { ...cell, operation: { ...cell.operation, claim: 1 } };
}

/** Replaces checks of the product, until the result is disposed of. */
export function withoutChecks(without: ReadonlySet<Mechanism>): Disposable {
  const undo: (() => void)[] = [];
  if (without.has('answer of a revocation'))
    undo.push(replace(KeyCaches.prototype, { outdate: async () => undefined }));
  if (without.has('settling of a move')) undo.push(replace(PauseMoves.prototype, { settle: async () => false }));
  if (without.has('removal of a content'))
    undo.push(replace(ContentRemovals.prototype, { isUnderWay: async () => false }));
  return {
    [Symbol.dispose]() {
      for (const each of undo) each();
    },
  };
}
