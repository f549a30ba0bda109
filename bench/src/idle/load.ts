/**
 * `node bench/src/idle/load.ts [sandboxes] [minutes] [seconds between kills]`, as root: named sandboxes sleep and wake at
 * random while server and hostd are killed, every minute unless another time is given. Fails if a request is not
 * answered, if a run is lost, or executed twice although its server lived, or if a file differs or something is left on
 * the host.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { describeGrowth, hostFootprint } from '../../../e2e/support/host-footprint.ts';
import { testService } from '../../../e2e/support/service.ts';
import { Sleeper } from './sleeper.ts';

const [sandboxes = 30, minutes = 60, killSeconds = 60] = process.argv.slice(2).map(Number);
const STARTED_AT_ONCE = 4;

const service = await testService({ CLOCHE_POOL_SIZE: '0' });
const violations: string[] = [];
try {
  const warm = await service.api.readySandbox();
  await service.api.run(warm.id, '1');
  const before = hostFootprint();
  const sleepers = Array.from({ length: sandboxes }, () => new Sleeper(service, `load-${randomUUID()}`));
  for (let first = 0; first < sandboxes; first += STARTED_AT_ONCE) {
    await Promise.all(sleepers.slice(first, first + STARTED_AT_ONCE).map((sleeper) => sleeper.create()));
  }
  const end = performance.now() + minutes * 60_000;
  const kills = killUntil(end);
  await Promise.all(sleepers.map((one) => guarded(one.loadUntil(end))));
  console.log(`${await kills} kills of server and hostd`);
  await Promise.all(sleepers.map((one) => guarded(one.check())));
  await Promise.all(sleepers.map((one) => guarded(one.delete())));
  await delay(5_000);
  const left = describeGrowth(before, hostFootprint(), service.installationId);
  violations.push(...left.filter((line) => !/_guard_\d+ /.test(line)).map((line) => `left: ${line}`));
  violations.push(...sleepers.flatMap((one) => one.violations));
  const sum = (figure: (one: Sleeper) => number) => sleepers.reduce((total, one) => total + figure(one), 0);
  console.log(
    `${sum((one) => one.requests)} requests, ${sum((one) => one.repeats)} repeats, the slowest after ` +
      `${Math.round(Math.max(...sleepers.map((one) => one.slowestMs)))} ms; ` +
      `${sum((one) => one.runsTwiceAfterLoss)} runs executed again after their server was killed`,
  );
} finally {
  await service.close();
}
for (const violation of violations) console.log(violation);
process.exit(violations.length === 0 ? 0 : 1);

/** Kills server and hostd, in turns alone and together. Resolves with the number of kills. */
async function killUntil(end: number): Promise<number> {
  const turns = [['server'], ['hostd'], ['server', 'hostd']] as const;
  for (let kills = 0; ; kills += 1) {
    await delay(killSeconds * 1_000);
    if (performance.now() > end) return kills;
    const parts = turns[kills % turns.length] ?? [];
    await Promise.all(parts.map((part) => service.kill(part)));
    await Promise.all(parts.map((part) => service.restart(part)));
  }
}

async function guarded(work: Promise<void>): Promise<void> {
  await work.catch((error) => violations.push(String(error)));
}
