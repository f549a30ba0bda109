import { setTimeout as delay } from 'node:timers/promises';
import { type Api, readEvents } from '../api.ts';

/** Lines of one run of the neighbour, and the pause between two. */
const LINES = 20;
const LINE_MS = 50;
const HEALTH_EACH_MS = 50;
/** Time of what comes before an attack and after it. */
const SPARE_SECONDS = 1_200;

/** Creates a sandbox that outlives an attack of that many seconds, also one of hours. Returns its id. */
export async function lastingSandbox(api: Api, seconds: number, body: Record<string, unknown> = {}): Promise<string> {
  // A lifetime can only be made longer, and is an hour at most at creation.
  const { id } = await api.readySandbox({ ...body, ttlMs: 60_000 });
  const { status } = await api.post(`/v1/sandboxes/${id}/ttl`, { ttlMs: (seconds + SPARE_SECONDS) * 1000 });
  if (status !== 200) throw new Error(`extend: ${status}`);
  return id;
}

/** The service that other clients got during an attack. */
export interface Standing {
  /** Streams of the neighbour that ended with all their lines. */
  readonly streams: number;
  /** Descriptions of the streams that lacked lines. */
  readonly broken: readonly string[];
  /** Times in which `/healthz` answered, sorted. */
  readonly healthMs: readonly number[];
}

/**
 * Watches a service until `attack` settles: a neighbour runs code whose output streams, one run after the other, and
 * `/healthz` is asked all the time. Rejects if the attack or `/healthz` does.
 */
export async function standingDuring(api: Api, neighbour: string, attack: () => Promise<void>): Promise<Standing> {
  const broken: string[] = [];
  const healthMs: number[] = [];
  let streams = 0;
  let isOver = false;
  const stream = async () => {
    while (!isOver) {
      const problem = await streamWhole(api, neighbour);
      if (problem === undefined) streams += 1;
      else broken.push(problem);
    }
  };
  const health = async () => {
    while (!isOver) {
      const startedAt = performance.now();
      const { status } = await fetch(new URL('/healthz', api.url));
      if (status !== 200) throw new Error(`/healthz: ${status}`);
      healthMs.push(performance.now() - startedAt);
      await delay(HEALTH_EACH_MS);
    }
  };
  const attacked = attack().finally(() => {
    isOver = true;
  });
  await Promise.all([attacked, stream(), health()]);
  return { streams, broken, healthMs: healthMs.toSorted((one, other) => one - other) };
}

/** Streams the output of one run. Returns what is missing. */
async function streamWhole(api: Api, sandboxId: string): Promise<string | undefined> {
  const code = `import time\nfor n in range(${LINES}):\n    print(n, flush=True)\n    time.sleep(${LINE_MS / 1000})`;
  try {
    let text = '';
    let isComplete = false;
    for await (const event of readEvents(await api.openStream(sandboxId, code))) {
      if (event.type === 'stdout') text += event.data;
      isComplete ||= event.type === 'complete';
    }
    const lines = Array.from({ length: LINES }, (_, n) => `${n}\n`).join('');
    if (text === lines && isComplete) return undefined;
    return `complete: ${isComplete}, ${JSON.stringify(text)}`;
  } catch (error) {
    return String(error);
  }
}
