/** `npm run bench`: measures Cloche and its peers on the same work, in turns. See bench/README.md. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Bench, Measurement, Row } from './measurement.ts';
import { MEASUREMENTS } from './measurements/index.ts';
import { Peers } from './peers/peers.ts';
import { describeAims, figure, isMet, slowEnd, slowEndName, timesAsGood } from './report/judge.ts';
import { renderMarkdown } from './report/markdown.ts';
import { renderPlot } from './report/plot.ts';
import { withHeadlines, withTargets } from './report/summary.ts';
import {
  currentLoad,
  describeMachine,
  merge,
  type Results,
  readResults,
  type StoredOutcome,
  stored,
} from './results.ts';
import { Subject } from './subject.ts';

/** Time limit of one measurement; the longest takes some four minutes. */
const LIMIT_MS = 10 * 60_000;

const FOLDER = new URL('..', import.meta.url).pathname;

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
    json: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
});

if (flags.list) {
  for (const { name, title, fullOnly } of MEASUREMENTS)
    console.log(`${name.padEnd(14)} ${title}${fullOnly ? ' (not in a quick run)' : ''}`);
} else {
  const chosen = chooseMeasurements();
  const results = await measureAll(chosen);
  if (flags.json) console.log(JSON.stringify(results, null, 2));
  process.exit();
}

function chooseMeasurements(): readonly Measurement[] {
  const wanted = flags.only.flatMap((names) => names.split(','));
  const unknown = wanted.find((name) => !MEASUREMENTS.some((one) => one.name === name));
  if (unknown !== undefined) {
    console.error(`There is no measurement ${unknown}; \`npm run bench -- --list\` shows those that there are.`);
    process.exit(2);
  }
  return MEASUREMENTS.filter(({ name, fullOnly }) =>
    wanted.length > 0 ? wanted.includes(name) : !(flags.quick && fullOnly),
  );
}

async function measureAll(chosen: readonly Measurement[]): Promise<Results> {
  const say = (line: string) => process.stderr.write(`   ${line}\n`);
  const peers = new Peers(say);
  let started: Promise<Subject> | undefined;
  const bench: Bench = {
    subject: () => {
      started ??= Subject.open();
      return started;
    },
    peers,
    quick: flags.quick,
    say,
    rounds: (full, quick) => (flags.quick ? quick : full),
  };
  const closeSubject = async () => {
    const subject = started;
    started = undefined;
    await (await subject)?.close();
  };
  const outcomes: StoredOutcome[] = [];
  const interruption = onInterruption();
  let failed = 0;
  try {
    for (const [index, measurement] of chosen.entries()) {
      if (interruption.aborted) break;
      process.stderr.write(`[${index + 1}/${chosen.length}] ${measurement.title}\n`);
      const load = currentLoad();
      const began = performance.now();
      try {
        const outcome = await withinLimit(measurement.measure(bench));
        outcomes.push(stored(measurement, outcome, load, flags.quick));
        // Only full runs are stored, unless `--write` is given.
        if (!flags.quick || flags.write) writeResults({ machine: describeMachine(peers.versions), outcomes });
        for (const row of outcome.rows) process.stderr.write(`   ${describeRow(row)}\n`);
      } catch (error) {
        failed += 1;
        process.stderr.write(`   failed: ${error instanceof Error ? error.stack : error}\n`);
        // The subject or a peer may be the cause, or may be left in a bad state: the next measurement starts new ones.
        await Promise.allSettled([closeSubject(), peers.close()]);
      }
      say(`${((performance.now() - began) / 1000).toFixed(0)} s`);
    }
  } finally {
    await Promise.allSettled([closeSubject(), peers.close()]);
  }
  if (failed > 0) process.exitCode = 1;
  return { machine: describeMachine(peers.versions), outcomes };
}

/** Rejects when a measurement hangs, so that the others still run. */
async function withinLimit<T>(measured: Promise<T>): Promise<T> {
  const limit = new AbortController();
  const late = delay(LIMIT_MS, undefined, { signal: limit.signal }).then(() => {
    throw new Error(`it took longer than ${LIMIT_MS / 60_000} minutes`);
  });
  try {
    return await Promise.race([measured, late]);
  } finally {
    limit.abort();
    // Nothing awaits the promise that settles second: handle its rejection.
    late.catch(() => {});
    measured.catch(() => {});
  }
}

/**
 * Aborts at the first signal that ends the benchmark: the measurement under way is finished, and everything that was
 * started is ended. The same signal again ends the process at once, and leaves them running.
 */
function onInterruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      process.stderr.write('   ending after this measurement\n');
      controller.abort();
    });
  }
  return controller.signal;
}

function describeRow(row: Row): string {
  const { what, unit, subject, peer } = row;
  const ratio = timesAsGood(row);
  const beside =
    peer && ratio ? `   ${ratio.toFixed(ratio < 10 ? 2 : 0)}× ${peer.name} (${figure(peer.figures.p50, unit)})` : '';
  const aims = describeAims(row);
  const verdict = aims ? `   [${isMet(row) ? 'met' : 'missed'}: ${aims}]` : '';
  const tail = subject.count > 1 ? `  ${slowEndName(unit)} ${figure(slowEnd(subject, unit), unit)}` : '';
  return `${what.padEnd(52)} p50 ${figure(subject.p50, unit)}${tail}${beside}${verdict}`;
}

function writeResults(now: Results): void {
  const file = join(FOLDER, 'results.json');
  const results = merge(
    readResults(file),
    now,
    MEASUREMENTS.map(({ name }) => name),
  );
  writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(join(FOLDER, 'results.md'), renderMarkdown(results));
  rewrite(join(FOLDER, '../README.md'), (text) => withHeadlines(text, results));
  rewrite(join(FOLDER, '../docs/performance.md'), (text) => withTargets(text, results));
  const curves = results.outcomes.flatMap(({ curves: own = [] }) => own);
  if (curves.length > 0) writeFileSync(join(FOLDER, 'results.svg'), renderPlot(curves));
}

function rewrite(file: string, change: (text: string) => string): void {
  writeFileSync(file, change(readFileSync(file, 'utf8')));
}
