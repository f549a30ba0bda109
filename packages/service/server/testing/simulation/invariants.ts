/** The conditions that hold at every moment of a simulation, whatever goes wrong. */
import type { RunOperation } from '@cloche/protocol';
import type { FakeRuntimeDriver } from '@cloche/testkit';
import type { SharedDatabase } from './shared-database.ts';
import type { VirtualTime } from './virtual-time.ts';
import type { Workload } from './workload.ts';

/** Most live sandboxes of the organization. */
export const MOST_SANDBOXES = 2;
/** Most running workspace runs of the organization. */
export const MOST_WORKSPACE_RUNS = 2;
/** How far the clock of a server may be from that of the database. */
const CLOCK_MS = 600;
/** Time between the last look of a server at the activity and the end that it writes: a few slow statements. */
const LOOKS_MS = 10_000;

const OCCUPYING = "('creating', 'starting', 'ready', 'expiring')";

export interface Invariants {
  readonly workload: Workload;
  /** The first violation, in words; undefined if there was none. */
  readonly violation: string | undefined;
  committed(): void;
  beforeStop(sandboxId: string, generation: number): void;
  launched(): void;
  /** Notes that an agent starts a command that it did not know. */
  commandStarted(sandboxId: string, commandId: string): void;
  /** Notes an answer to the request with a key. */
  answered(key: string, status: number, body: string): void;
  violate(what: string): void;
  /** Returns what is not at rest. Some time after the last fault this must be empty. */
  unrest(): string[];
}

export interface WatchedWorld {
  readonly database: SharedDatabase;
  readonly runtime: FakeRuntimeDriver;
  readonly time: VirtualTime;
  /** Opens the workload, which has invariants of its own. */
  readonly openWorkload: (violate: (what: string) => void) => Workload;
}

export function watchInvariants({ database, runtime, time, openWorkload }: WatchedWorld): Invariants {
  const began = new Map<RunOperation, number>();
  const commands = new Map<string, { readonly id: string; readonly began: number }[]>();
  const answers = new Map<string, string>();
  const judged = new Set<string>();
  let violation: string | undefined;
  const violate = (what: string) => {
    violation ??= what;
    time.note(`VIOLATION ${what}`);
  };
  const workload = openWorkload(violate);
  const executing = () => runtime.agents().flatMap((agent) => [...agent.executing]);
  const holds = (id: unknown, generation: unknown) =>
    runtime.instances().some((each) => each.sandboxId === id && each.generation === generation);

  const executes = (operation: RunOperation) => {
    const { recordId } = operation;
    const isFirst = [...began.keys()].every((other) => other.recordId !== recordId);
    began.set(operation, time.now());
    if (executing().some((other) => other.recordId === recordId)) violate(`${recordId} is executed twice at a time`);
    const [record] = database.read('select state, response_body from idempotency_records where id = ?', recordId);
    // A run is canceled without waiting for its agent, which may get the code after that, and then its cancellation.
    const isLate = isFirst && String(record?.response_body).includes('"name":"CanceledError"');
    if (record?.state === 'completed' && !isLate) violate(`${recordId} is executed again after it was completed`);
  };

  const judgeQuota = () => {
    // A sandbox that failed takes room again while it is deleted.
    const [row] = database.read(
      `select count(*) as live from sandboxes
       where status in ${OCCUPYING} and failure_reason is null and coalesce(pause_state, '') not in ('paused', 'dropping', 'parked')`,
    );
    if (Number(row?.live) > MOST_SANDBOXES) violate(`${row?.live} sandboxes live, ${MOST_SANDBOXES} may`);
  };

  /** Returns what a sandbox executes now. */
  const usesOf = (sandboxId: string) => {
    const agent = runtime.agentOf(sandboxId);
    const runs = [...agent.executing].map((operation) => ({
      id: operation.recordId,
      began: began.get(operation) ?? 0,
    }));
    const running = (commands.get(sandboxId) ?? []).filter(
      ({ id }) => agent.commands.stateOf(id)?.status === 'running',
    );
    return [...runs, ...running];
  };

  const judgeEnds = () => {
    const ends = database.read(
      "select id, generation, ending_reason, expires_at, metadata from sandboxes where status = 'expiring' and ending_reason is not null",
    );
    for (const { id, generation, ending_reason: reason, expires_at: expiresAt, metadata } of ends) {
      if (judged.has(String(id))) continue;
      judged.add(String(id));
      if (reason === 'ttl_expired' && Number(expiresAt) > time.now() + CLOCK_MS) violate(`${id} expires too early`);
      if (!holds(id, generation)) continue;
      // The service itself ends those that it has created for runs and builds, which their metadata name.
      if (reason === 'platform_cleanup' && metadata === '{}') violate(`${id} is ended as lost, and lives`);
      const used = usesOf(String(id)).find((use) => time.now() - use.began > LOOKS_MS);
      if (reason === 'idle_expired' && used) violate(`${id} is ended as idle, and executes ${used.id}`);
    }
  };

  return {
    workload,
    get violation() {
      return violation;
    },
    committed() {
      judgeQuota();
      judgeEnds();
      workload.committed?.();
    },
    commandStarted(sandboxId, id) {
      commands.set(sandboxId, [...(commands.get(sandboxId) ?? []), { id, began: time.now() }]);
      workload.commandStarted?.(sandboxId, id);
    },
    beforeStop(id, generation) {
      if (!holds(id, generation)) return;
      const [row] = database.read('select status, generation, expires_at, pause_state from sandboxes where id = ?', id);
      // A boot that fails ends what it may have launched.
      const isBooted = row?.pause_state !== 'booting' && row?.pause_state !== 'parked';
      const isIts = row?.status === 'ready' && row.generation === generation && isBooted;
      const isLive = isIts && Number(row.expires_at) > time.now();
      if (isLive) violate(`the instance ${id}/${generation} of a live sandbox is stopped`);
    },
    launched() {
      for (const agent of runtime.agents()) agent.onExecution = executes;
    },
    answered(key, status, body) {
      if (status < 200 || status >= 300) return;
      const first = answers.get(key) ?? body;
      answers.set(key, first);
      if (first !== body) violate(`the request ${key} was answered with ${first} and then with ${body}`);
    },
    violate,
    unrest() {
      const instances = runtime.instances().flatMap(({ sandboxId, generation }) => {
        const [row] = database.read(
          `select generation from sandboxes where id = ? and status in ${OCCUPYING}`,
          sandboxId,
        );
        return row?.generation === generation ? [] : [`instance ${sandboxId}/${generation} without a live record`];
      });
      const records = database.read(
        "select id, status from sandboxes where status in ('creating', 'starting', 'expiring') or (status = 'ready' and expires_at < ?)",
        time.now() - LOOKS_MS,
      );
      const lost = database
        .read("select id, generation from sandboxes where status = 'ready' and coalesce(pause_state, '') <> 'parked'")
        .filter(({ id, generation }) => !holds(id, generation))
        .map(({ id }) => `sandbox ${id} is ready without an instance`);
      const claims = database.read("select id from idempotency_records where state = 'in_progress'");
      return [
        ...instances,
        ...lost,
        ...records.map(({ id, status }) => `sandbox ${id} is ${status}`),
        ...claims.map(({ id }) => `record ${id} is in progress`),
        ...(workload.unrest?.() ?? []),
      ];
    },
  };
}
