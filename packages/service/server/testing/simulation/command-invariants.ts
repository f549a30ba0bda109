/** What always holds for the commands of a simulation. */
import type { WorkloadWorld } from './workload.ts';

export type CommandInvariants = ReturnType<typeof watchCommands>;

export function watchCommands({ database, runtime, violate }: WorkloadWorld) {
  /** Commands that agents have started, by the idempotency records for which they did. */
  const started = new Map<string, string>();
  const endings = new Map<string, string>();
  const agentOf = (sandboxId: unknown) =>
    runtime.instances().some((each) => each.sandboxId === sandboxId) ? runtime.agentOf(String(sandboxId)) : undefined;

  return {
    /** Whether an agent has ever started the command. */
    wasStarted: (id: string) => [...started.values()].includes(id),
    commandStarted(sandboxId: string, id: string) {
      const [row] = database.read('select status, idempotency_record_id from commands where id = ?', id);
      if (row?.status !== 'running') violate(`${id} is started in ${sandboxId}, and its record is ${row?.status}`);
      const recordId = String(row?.idempotency_record_id ?? id);
      const first = started.get(recordId) ?? id;
      if (first !== id) violate(`${recordId} starts ${first}, and then ${id}`);
      started.set(recordId, id);
    },
    committed() {
      const ended = database.read("select id, status, exit_code, finished_at from commands where status != 'running'");
      for (const { id, ...ending } of ended) {
        const text = JSON.stringify(ending);
        const first = endings.get(String(id)) ?? text;
        endings.set(String(id), first);
        if (first !== text) violate(`${id} has ended as ${first}, and then as ${text}`);
      }
    },
    /** Returns where the record of a command in a live sandbox differs from what its agent knows. */
    unrest(): string[] {
      const rows = database.read(
        "select commands.* from commands join sandboxes on sandboxes.id = sandbox_id where sandboxes.status = 'ready'",
      );
      return rows.flatMap(({ id, sandbox_id: sandboxId, status, exit_code: exitCode }) => {
        const known = agentOf(sandboxId)?.commands.stateOf(String(id));
        const isEqual = known ? known.status === status && (known.exitCode ?? null) === exitCode : status === 'failed';
        return isEqual ? [] : [`command ${id} is recorded as ${status}, and is ${known?.status ?? 'unknown'}`];
      });
    },
  };
}
