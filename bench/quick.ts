/**
 * What the service costs on this machine, a minute of it: `node bench/quick.ts` against a server that runs
 * (`CLOCHE_URL`, `CLOCHE_API_KEY`). Everything is measured by the client, over HTTP, one at a time unless said otherwise.
 */
import { Cloche, type Sandbox } from '@cloche/sdk';

const cloche = new Cloche();
const rows: [string, string][] = [];

await warmUp();
await measureCreation();
await measureRuns();
await measureContexts();
for (const [name, figure] of rows) console.log(`${name.padEnd(44)} ${figure}`);

async function warmUp(): Promise<void> {
  await using sandbox = await cloche.sandboxes.create();
  await sandbox.run('1 + 1');
}

async function measureCreation(): Promise<void> {
  const ready: number[] = [];
  const first: number[] = [];
  const kill: number[] = [];
  for (let n = 0; n < 20; n++) {
    const started = performance.now();
    const sandbox = await cloche.sandboxes.create();
    await sandbox.waitUntilReady();
    ready.push(performance.now() - started);
    await sandbox.run('1 + 1');
    first.push(performance.now() - started);
    const killed = performance.now();
    await sandbox.kill();
    kill.push(performance.now() - killed);
  }
  rows.push(['create → ready', summary(ready)]);
  rows.push(['create → ready → first Python result', summary(first)]);
  rows.push(['kill → gone', summary(kill)]);
}

async function measureRuns(): Promise<void> {
  await using sandbox = await cloche.sandboxes.create();
  for (const language of ['python', 'javascript', 'typescript'] as const) {
    await sandbox.run('1 + 1', { language });
    rows.push([`hot run 1 + 1, ${language}`, summary(await repeat(300, () => sandbox.run('1 + 1', { language })))]);
  }
  const flood = "import sys\nfor _ in range(500_000): sys.stdout.write('x' * 99 + '\\n')";
  rows.push(['50 MB of output through a run', summary(await repeat(3, () => sandbox.run(flood)))]);
}

async function measureContexts(): Promise<void> {
  await using sandbox: Sandbox = await cloche.sandboxes.create();
  await sandbox.waitUntilReady();
  for (const language of ['python', 'javascript'] as const) {
    const times = await repeat(8, async () => {
      await sandbox.contexts.create({ language });
    });
    rows.push([`new context in a running sandbox, ${language}`, summary(times)]);
  }
}

async function repeat(times: number, work: () => Promise<unknown>): Promise<number[]> {
  const all: number[] = [];
  for (let n = 0; n < times; n++) {
    const started = performance.now();
    await work();
    all.push(performance.now() - started);
  }
  return all;
}

/** Median and 99th percentile, in milliseconds. */
function summary(times: number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN).toFixed(1);
  return `p50 ${at(0.5)} ms   p99 ${at(0.99)} ms   (${times.length})`;
}
