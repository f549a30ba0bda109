import type { Logger } from 'pino';
import type { Authenticator } from '../api-keys/authenticator.ts';
import { type EndKeyWork, KEY_LOOK_MS } from '../api-keys/end-key-work.ts';
import { EndedKeys } from '../api-keys/ended-keys.ts';
import type { KeyCaches } from '../api-keys/key-caches.ts';
import { USES_WRITE_MS } from '../api-keys/key-uses.ts';
import type { Clock } from '../base/clock.ts';
import { Loop } from '../base/loop.ts';
import type { Database } from '../db/database.ts';
import type { Transactions } from '../db/transactions.ts';

/** Interval of the deletion of ended keys. */
const FORGET_MS = 3_600_000;

export interface KeepApiKeysDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly log: Logger;
  readonly authenticator: Authenticator;
  readonly endKeyWork: EndKeyWork;
  /** Undefined if the database has one server. */
  readonly keyCaches: KeyCaches | undefined;
  /** Milliseconds for which the record of an ended key is kept. */
  readonly recordRetentionMs: number;
}

/** Starts the jobs that write when keys were used, end the work of ended keys, and delete old records. */
export function keepApiKeys(deps: KeepApiKeysDeps): Loop[] {
  const { db, transactions, clock, log, authenticator, endKeyWork, keyCaches, recordRetentionMs } = deps;
  const endedKeys = new EndedKeys(db, transactions);
  const write = () => authenticator.uses.write().then(() => USES_WRITE_MS);
  const look = async () => {
    await keyCaches?.look();
    await endKeyWork.look();
    return KEY_LOOK_MS;
  };
  const forget = () => endedKeys.forget(clock.now() - recordRetentionMs).then(() => FORGET_MS);
  return [
    new Loop('key uses', write, USES_WRITE_MS, log),
    new Loop('key work', look, KEY_LOOK_MS, log),
    new Loop('ended keys', forget, FORGET_MS, log),
  ];
}
