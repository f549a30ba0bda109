/**
 * Shows where the time of a large file transfer is spent: `node bench/src/files-path.ts`, as root, half a minute.
 * Prints the rate that the client sees, the processor time of each process for one megabyte, and how long the process
 * waits for a processor.
 */
import { randomBytes } from 'node:crypto';
import { CpuMeter } from './cpu-meter.ts';
import { figuresOf } from './statistics.ts';
import { Subject } from './subject.ts';
import { timed } from './timing.ts';

const LARGE_MB = 200;
const ROUNDS = 9;

const subject = await Subject.open({ CLOCHE_POOL_SIZE: '1' });
try {
  const id = await subject.createReady();
  const { service } = subject;
  if (!service) throw new Error('it needs a service of its own: unset CLOCHE_URL');
  const meter = new CpuMeter(service);
  const path = `/v1/sandboxes/${id}/files/content?path=large`;
  const large = randomBytes(LARGE_MB * 1_000_000);
  await show('write', meter, () => subject.http.send('PUT', path, large));
  await show('read', meter, () => subject.http.drain(path));
} finally {
  await subject.close();
}

async function show(name: string, meter: CpuMeter, work: () => Promise<unknown>): Promise<void> {
  await work();
  const rates: number[] = [];
  const shares = await meter.during(ROUNDS * LARGE_MB, async () => {
    for (let round = 0; round < ROUNDS; round++) rates.push((LARGE_MB * 1000) / (await timed(work)));
  });
  console.log(`${name} a file of ${LARGE_MB} MB: p50 ${figuresOf(rates).p50.toFixed(0)} MB/s`);
  for (const [part, { computedMs, waitedMs }] of shares) {
    console.log(`  ${part.padEnd(18)} computes ${computedMs.toFixed(2)} ms for 1 MB, waits ${waitedMs.toFixed(2)} ms`);
  }
}
