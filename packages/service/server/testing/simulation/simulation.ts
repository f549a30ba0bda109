/** Runs one seed: several servers, clients and faults, in simulated time. */
import { setImmediate as realTurn } from 'node:timers/promises';
import { FakeRuntimeDriver, SequentialIds } from '@cloche/testkit';
import { Clients } from './clients.ts';
import { type Fault, type FaultKind, Faults } from './faults.ts';
import { FrozenAgents } from './frozen-agents.ts';
import { watchInvariants } from './invariants.ts';
import { type Mechanism, withoutChecks } from './mechanisms.ts';
import { NotificationBus } from './notification-bus.ts';
import { Seams } from './seams.ts';
import type { ServerWorld } from './server-parts.ts';
import { SharedDatabase } from './shared-database.ts';
import { SimulatedServer } from './simulated-server.ts';
import { VirtualTime } from './virtual-time.ts';
import { useVirtualTimers } from './virtual-timers.ts';
import { WORKLOADS, type WorkloadName, workloadOf } from './workloads/index.ts';

/** Simulated time in which faults happen. */
const FAULTS_MS = 35_000;
/** Simulated time after the last fault in which everything must come to rest. */
const REST_MS = 240_000;
/** How often the simulation looks whether everything is at rest. */
const LOOK_MS = 2_000;
/** Lag of timers when nothing but the passing of time is left to wait for; it spares most of the events. */
const REST_LAG_MS = 3_000;
/** Most events of a seed: more of them are a loop without a pause. */
const MOST_EVENTS = 200_000;

export interface SeedOptions {
  readonly seed: number;
  /** Contents of the database, from `prepareImage`. */
  readonly image: Uint8Array;
  /** By default that of the seed. */
  readonly workload?: WorkloadName | undefined;
  readonly without?: Iterable<Mechanism>;
  /** Kinds of faults that happen. By default the seed decides. */
  readonly kinds?: readonly FaultKind[] | undefined;
  /** Numbers of the faults that happen; all by default. */
  readonly only?: ReadonlySet<number> | undefined;
  readonly trace?: (line: string) => void;
}

export interface SeedResult {
  readonly seed: number;
  readonly workload: WorkloadName;
  readonly violation: string | undefined;
  readonly faults: readonly Fault[];
  readonly events: number;
  readonly simulatedMs: number;
  /** Hash of all events in their order. */
  readonly digest: string;
}

export async function simulate({ seed, image, only, trace, ...options }: SeedOptions): Promise<SeedResult> {
  const without = new Set(options.without ?? []);
  const workload = options.workload ?? workloadOf(seed);
  // Taken before the timers are replaced.
  const turn = realTurn;
  const time = new VirtualTime(seed);
  time.trace = trace;
  const faults = new Faults(seed, only, options.kinds);
  using _timers = useVirtualTimers(time);
  using _checks = withoutChecks(without);
  // A trace of the calls costs more than the error, and an event tells more.
  Error.stackTraceLimit = 0;
  const seams = new Seams(time, faults);
  const database = new SharedDatabase(image, time);
  const runtime = new FakeRuntimeDriver();
  const parts = { database, seams, time, runtime, frozen: new FrozenAgents(runtime), without };
  const openWorkload = (violate: (what: string) => void) => WORKLOADS[workload]({ ...parts, violate });
  const invariants = watchInvariants({ ...parts, openWorkload });
  database.onCommitted = invariants.committed;
  const world: ServerWorld = {
    ...parts,
    ...invariants,
    bus: new NotificationBus(time, seams),
    ids: new SequentialIds(),
  };
  const servers: SimulatedServer[] = [];
  let made = 0;
  const start = () => {
    const server = new SimulatedServer(`srv_${++made}`, world);
    servers.push(server);
    const failed = () => end(server, 0);
    time.afterFor(server, 0, `start of ${server.name}`, () => void server.start().catch(failed));
  };
  const end = (server: SimulatedServer, closesMs: number) => {
    if (!server.isAlive) return;
    server.end(closesMs);
    time.afterFor(undefined, 1_000 + faults.below(10_000), 'another server starts', start);
  };
  const clients = new Clients({ time, invariants, servers: () => servers.filter(({ isServing }) => isServing) });
  time.beforeEvent = ({ owner, label }) => {
    const server = servers.find((each) => each === owner);
    if (!server) return;
    const where = () => `${server.name}, before "${label}"`;
    if (faults.strikes('crash', where)) end(server, 0);
    else if (faults.strikes('power loss', where)) end(server, 15_000);
    else if (faults.strikes('pause', where)) server.resumesAt = time.now() + faults.lengthMs();
  };

  const { random } = time;
  time.timerLagMs = random.pick([5, 1_000, 4_000, 4_000, 4_000]);
  for (let count = random.pick([2, 2, 3]); count > 0; count -= 1) start();
  for (let count = random.pick([1, 2, 3]); count > 0; count -= 1) {
    clients.start(invariants.workload.work);
  }
  let isAtRest = false;
  const look = () => {
    const isOver = time.elapsed() > FAULTS_MS || clients.areDone;
    if (isOver) {
      faults.isOver = true;
      time.timerLagMs = REST_LAG_MS;
      for (const server of servers) server.cutUntil.clear();
    }
    const unrest = [...(clients.areDone ? [] : ['clients wait']), ...invariants.unrest()];
    isAtRest = isOver && unrest.length === 0;
    if (time.elapsed() > FAULTS_MS + REST_MS) invariants.violate(`not at rest: ${unrest.join(', ')}`);
    time.afterFor(undefined, LOOK_MS, 'look', look);
  };
  time.afterFor(undefined, LOOK_MS, 'look', look);
  while (!isAtRest && !invariants.violation && time.fired < MOST_EVENTS && time.step()) await turn();
  if (time.fired >= MOST_EVENTS) invariants.violate('a loop without a pause');
  database.close();
  const { violation } = invariants;
  return {
    seed,
    workload,
    violation,
    faults: faults.happened,
    events: time.fired,
    simulatedMs: time.elapsed(),
    digest: time.digest(),
  };
}
