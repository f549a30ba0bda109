/** Several servers of one PostgreSQL database, each with connections and memory of its own. They run no jobs. */
import { FakeClock, FakeRuntimeDriver, SequentialIds } from '@cloche/testkit';
import { eventually } from '@cloche/testkit/eventually';
import { type Notifications, openNotifications } from '../src/platform/db/notifications.ts';
import { SETTINGS } from './sandbox-settings.ts';
import { SandboxesWorld } from './sandboxes.ts';
import { seed } from './seeded-organizations.ts';
import { DATABASE_KIND, openBeside, openTestDatabase } from './test-database.ts';

/** Why a test with several servers does not run, or false. */
export const NEEDS_POSTGRES = DATABASE_KIND === 'sqlite' && 'several servers take PostgreSQL: `npm test -- postgres`';

export class TestServers implements AsyncDisposable {
  readonly servers: readonly SandboxesWorld[];

  private constructor(servers: readonly SandboxesWorld[]) {
    this.servers = servers;
  }

  /** Opens servers that share a runtime and a clock. All of them listen. */
  static async open(count: number): Promise<TestServers> {
    const first = await openTestDatabase();
    await seed(first);
    const [driver, clock, ids] = [new FakeRuntimeDriver(), new FakeClock(), new SequentialIds()];
    const databases = [first];
    while (databases.length < count) databases.push(await openBeside(first));
    const servers = databases.map(
      (db, index) => new SandboxesWorld(db, driver, clock, ids, SETTINGS, `srv_${index}`, openNotifications(db)),
    );
    await Promise.all(servers.map(({ notifications }) => listens(notifications)));
    // Loads the catalogue of templates.
    for (const { server } of servers) await server.check(new AbortController().signal);
    return new TestServers(servers);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { notifications } of this.servers) await notifications.close();
    // The first one made the database, which the others use.
    for (const server of this.servers.toReversed()) await server[Symbol.asyncDispose]();
  }
}

/**
 * Resolves when notifications from other servers arrive. Call it before any wait after servers were opened: their
 * connections notify listeners once when they are established.
 */
export async function listens(notifications: Notifications): Promise<void> {
  let isListening = false;
  const missed = () => {
    isListening = true;
  };
  // Each new connection may have missed some.
  notifications.subscribe('sandbox', { heard: () => undefined, missed });
  await eventually(() => isListening, { because: 'the server listens' });
}
