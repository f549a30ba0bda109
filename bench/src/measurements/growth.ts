import { readFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Curve, Measurement, Row } from '../measurement.ts';
import { type Figures, figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { repeat, timed } from '../timing.ts';

const IMPORTED = 'import pandas\nkept = pandas.DataFrame({"a": [1]})\nlen(kept)';
const AT_ONCE = 8;
/** Pause between two creations, the same as in the measurement of creation. */
const PAUSE_MS = 250;
/** Memory that is left for the host. */
const RESERVE_BYTES = 3 * 2 ** 30;
const BOUND_BYTES = 20 * 2 ** 30;

/**
 * Starts more and more sandboxes, each with a Python context that imported pandas, and measures latency as their number
 * grows.
 */
export const growth: Measurement = {
  name: 'growth',
  title: 'live sandboxes',
  async measure(bench) {
    const subject = await bench.subject();
    const steps = bench.quick ? [1, 10, 30] : [1, 100, 300, 700];
    const live: string[] = [];
    const created: { live: number; figures: Figures }[] = [];
    const hot: { live: number; figures: Figures }[] = [];
    const before = availableBytes();
    try {
      for (const step of steps) {
        await fill(subject, live, step);
        if (live.length < step) break;
        await subject.settled();
        created.push({ live: step, figures: figuresOf(await repeat(bench.rounds(30, 8), () => createOnce(subject))) });
        hot.push({ live: step, figures: figuresOf(await hotRuns(subject, live, bench.rounds(400, 100))) });
        const [create, run] = [created.at(-1)?.figures.p50 ?? 0, hot.at(-1)?.figures.p50 ?? 0];
        bench.say(`${live.length} live: create ${create.toFixed(1)} ms, hot run ${run.toFixed(2)} ms`);
      }
      const used = before - availableBytes();
      const answering = await countAnswering(subject, live);
      const each = used / Math.max(1, live.length);
      const rows: Row[] = [
        {
          what: 'live sandboxes with pandas imported, all answering',
          unit: 'sandboxes',
          subject: one(answering),
          ...(!bench.quick && { targets: [{ atLeast: 700 }] }),
          note: `as many as were asked for, or as fit; ${(used / 2 ** 30).toFixed(1)} GiB in all`,
        },
        {
          what: 'memory of one of them, of all processes and the kernel',
          unit: 'MiB',
          subject: one(each / 2 ** 20),
          targets: [{ atMost: BOUND_BYTES / 700 / 2 ** 20 }],
          note: 'what the host has less of, by the number of sandboxes',
        },
        ...[
          { what: 'create → ready', series: created },
          { what: 'hot run', series: hot },
        ].flatMap(({ what, series }) => grown(what, series)),
      ];
      return { rows, curves: [curve('create → ready', created), curve('hot run', hot)] };
    } finally {
      await inGroups(live.splice(0), (id) => subject.kill(id));
    }
  },
};

function grown(what: string, series: readonly { live: number; figures: Figures }[]): Row[] {
  const [first, ...others] = series;
  const last = others.at(-1);
  if (!first || !last) return [];
  const peer = { name: `with ${first.live} live`, figures: first.figures };
  return [{ what: `${what}, ${last.live} live`, unit: 'ms', subject: last.figures, peer, ratioAtMost: 1.5 }];
}

async function fill(subject: Subject, live: string[], wanted: number): Promise<void> {
  while (live.length < wanted && availableBytes() > RESERVE_BYTES) {
    const group = Array.from({ length: Math.min(AT_ONCE, wanted - live.length) });
    await Promise.all(
      group.map(async () => {
        const id = await subject.create({ resources: { diskMb: 256 } });
        live.push(id);
        await subject.run(id, IMPORTED);
      }),
    );
  }
}

async function createOnce(subject: Subject): Promise<number> {
  let id = '';
  const ms = await timed(async () => {
    id = await subject.createReady();
  });
  await subject.kill(id);
  await delay(PAUSE_MS);
  return ms;
}

async function hotRuns(subject: Subject, live: readonly string[], times: number): Promise<number[]> {
  const id = live[Math.floor(live.length / 2)] ?? '';
  await repeat(50, () => timed(() => subject.run(id, '1+1')));
  return repeat(times, () => timed(() => subject.run(id, '1+1')));
}

async function countAnswering(subject: Subject, live: readonly string[]): Promise<number> {
  let count = 0;
  await inGroups(live, async (id) => {
    const { outputs } = await subject.run(id, 'len(kept)');
    if (outputs[0]?.value === '1') count += 1;
  });
  return count;
}

async function inGroups(ids: readonly string[], act: (id: string) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < ids.length; at += AT_ONCE) await Promise.all(ids.slice(at, at + AT_ONCE).map(act));
}

function availableBytes(): number {
  const found = /MemAvailable: +(\d+) kB/.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1];
  return found ? Number(found) * 1024 : freemem();
}

function curve(title: string, series: readonly { live: number; figures: Figures }[]): Curve {
  return { title, points: series.map(({ live, figures }) => ({ live, ms: figures.p50, p95: figures.p95 })) };
}

function one(value: number): Figures {
  return figuresOf([value]);
}
