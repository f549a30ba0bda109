import type { RuntimeDriver } from '@cloche/runtime';
import { WITHOUT_METERING } from '@cloche/runtime/without-parts';
import type { Logger } from 'pino';
import { ROLL_UP_MS, RollUp } from '../features/metering/roll-up.ts';
import { SandboxUsages } from '../features/metering/sandbox-usages.ts';
import { StartedWork } from '../features/metering/started-work.ts';
import { type UsageRoutesDeps, usageRoutes } from '../features/usage/usage-routes.ts';
import type { Clock } from '../platform/base/clock.ts';
import { Loop } from '../platform/base/loop.ts';
import type { Database } from '../platform/db/database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';

export interface UsageDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly driver: RuntimeDriver;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The composed parts of usage. */
export interface Usage {
  readonly startedWork: StartedWork;
  readonly usages: SandboxUsages;
  readonly rollUp: RollUp;
  routes(access: Pick<UsageRoutesDeps, 'projects' | 'sandboxes'>): Route[];
  /** Starts the roll-ups. */
  start(): void;
  /** Ends the roll-ups and writes what is only in memory. Call it when no run is active. */
  stop(): Promise<void>;
}

export function composeUsage({ db, transactions, driver, clock, log }: UsageDeps): Usage {
  const startedWork = new StartedWork();
  const usages = new SandboxUsages({ db, transactions, clock, startedWork });
  const rollUp = new RollUp({
    db,
    transactions,
    usages,
    startedWork,
    metering: driver.metering ?? WITHOUT_METERING,
    clock,
    log,
  });
  let loop: Loop | undefined;
  return {
    startedWork,
    usages,
    rollUp,
    routes: (access) => usageRoutes({ ...access, db, usages, clock }),
    start() {
      loop = new Loop('usage', () => rollUp.pass().then(() => ROLL_UP_MS), ROLL_UP_MS, log);
    },
    async stop() {
      await loop?.stop();
      await rollUp.flush();
    },
  };
}
