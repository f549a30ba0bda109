import type { ResourceEvent } from '@cloche/contract';
import type { Clock } from '../../../platform/base/clock.ts';
import type { Audited } from '../../../platform/call/call.ts';
import type { Transaction, Transactions } from '../../../platform/db/transactions.ts';
import type { EventOutbox } from '../../../platform/outbox/event-outbox.ts';
import type { BuildLog } from './build-log.ts';
import type { BuildEnding, BuildRepository } from './build-repository.ts';
import type { BuildSandbox } from './build-sandbox.ts';
import { type BuildRecord, toBuild } from './template-build.ts';

export interface EndBuildDeps {
  readonly builds: BuildRepository;
  readonly buildLog: BuildLog;
  readonly buildSandbox: BuildSandbox;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly clock: Clock;
}

export interface EndOptions {
  /** The claim of the process that ran the build. A client that cancels it has none. */
  readonly claim?: string;
  /** Writes in the same transaction, before the event. */
  readonly alsoWrite?: (tx: Transaction) => Promise<void>;
  /** The transaction to write in. Default: one of its own. */
  readonly joined?: Transaction;
}

/** Ends builds. The first ending wins. */
export class EndBuild {
  readonly #deps: EndBuildDeps;

  constructor(deps: EndBuildDeps) {
    this.#deps = deps;
  }

  /** Ends a build. Returns false if it has ended already, or if `claim` is given and no longer holds it. */
  end(
    { id, orgId }: BuildRecord,
    ending: BuildEnding,
    { claim, alsoWrite, joined }: EndOptions = {},
  ): Promise<boolean> {
    const { builds, buildLog, transactions, outbox, clock } = this.#deps;
    return transactions.run(async (tx) => {
      const ended = await builds.end(id, ending, clock.now(), tx, claim);
      if (!ended) return false;
      await alsoWrite?.(tx);
      await buildLog.close(id, noteOf(ending), tx);
      const type = `template_build.${ending.status}` satisfies ResourceEvent['type'];
      await outbox.append(tx, { type, orgId, data: { build: toBuild(ended) } });
      return true;
    }, joined);
  }

  /** Cancels a build and destroys its sandbox. The server that runs the build finds out that it has ended. */
  async cancel({ audit }: Audited, build: BuildRecord): Promise<void> {
    const canceled = await this.end(
      build,
      { status: 'canceled' },
      {
        alsoWrite: async (tx) => {
          await audit?.append(tx, { id: build.id });
        },
      },
    );
    if (!canceled) return;
    const now = await this.#deps.builds.findById(build.id);
    if (now) await this.#deps.buildSandbox.destroy(now);
  }
}

function noteOf(ending: BuildEnding): string {
  switch (ending.status) {
    case 'succeeded':
      return `The build succeeded: ${ending.templateVersionId}\n`;
    case 'failed':
      return `The build failed: ${ending.error.message}\n`;
    case 'canceled':
      return 'The build was canceled.\n';
  }
}
