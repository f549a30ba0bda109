/**
 * Shows where the time of a hot run is spent: `node bench/src/hot-path.ts`, as root, half a minute. Prints the time
 * that the client sees, the processor time of each process for one run, and how long the process waits for a processor.
 */
import { CpuMeter } from './cpu-meter.ts';
import { FastifyPeer } from './peers/fastify.ts';
import { figuresOf } from './statistics.ts';
import { Subject } from './subject.ts';
import { timed } from './timing.ts';

const WARM_UP = 500;
const RUNS = 1500;

const subject = await Subject.open({ CLOCHE_POOL_SIZE: '1' });
await using fastify = await FastifyPeer.start();
await using echo = await FastifyPeer.start('echo');
try {
  const id = await subject.createReady();
  const { service } = subject;
  if (!service) throw new Error('it needs a service of its own: unset CLOCHE_URL');
  const meter = new CpuMeter(service);
  await show('empty POST to Fastify', meter, () => fastify.post());
  await show('echo through server, agent and kernel', meter, () => echo.post());
  for (const language of ['python', 'javascript']) {
    await show(`1+1 in ${language}`, meter, () => subject.run(id, '1+1', { language }));
  }
} finally {
  await subject.close();
}

async function show(name: string, meter: CpuMeter, work: () => Promise<unknown>): Promise<void> {
  for (let n = 0; n < WARM_UP; n++) await work();
  const times: number[] = [];
  const shares = await meter.during(RUNS, async () => {
    for (let n = 0; n < RUNS; n++) times.push(await timed(work));
  });
  const { p50, p95, p99 } = figuresOf(times);
  console.log(`${name}: p50 ${p50.toFixed(2)}, p95 ${p95.toFixed(2)}, p99 ${p99.toFixed(2)} ms`);
  for (const [part, { computedMs, waitedMs }] of shares) {
    console.log(`  ${part.padEnd(18)} computes ${computedMs.toFixed(2)} ms, waits ${waitedMs.toFixed(2)} ms`);
  }
}
