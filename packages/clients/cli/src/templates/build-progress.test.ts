import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { TemplateBuild, TemplateBuildLogEntry } from '@cloche/contract';
import { recordedOutput } from '../../testing/run-in-process.ts';
import { BuildProgress } from './build-progress.ts';

it('the progress of a build prints each step once, with its output, its time, and whether it was cached', async () => {
  let now = 0;
  const { output, text } = recordedOutput(false);
  const statuses = ['cached', 'succeeded', 'succeeded', 'failed', 'pending'] as const;
  const steps = statuses.map((status, index) => ({ status, description: `step ${index + 1}\u001b[2J` }));
  const build = { steps } as TemplateBuild;
  const entry = (step: number, data: string, stream: TemplateBuildLogEntry['stream'] = 'stdout') =>
    ({ seq: 1, at: '', step, stream, data }) as TemplateBuildLogEntry;

  const progress = new BuildProgress(output, ['COPY a /a', 'RUN b\nsecond line'], () => now);
  await progress.add(entry(0, 'The build waits.\n', 'system'), async () => build);
  await progress.add(entry(2, 'Step 2 of 5: b\n', 'system'), async () => build);
  await progress.add(entry(2, 'b1\n'), async () => build);
  await progress.add(entry(2, 'b2\n'), () => assert.fail('the build is read once for each step'));
  now = 90_000;
  await progress.add(entry(4, 'no newline'), async () => build);
  await progress.finish(build);
  assert.equal(
    text(),
    'The build waits.\n[1/5] COPY a /a  cached\n[2/5] RUN b\nb1\nb2\n1 min\n[3/5] step 3\n[4/5] step 4\nno newline',
  );
});

it('says of several cached steps how many they are, and at the end how long the build took', async () => {
  let now = 0;
  const { output, text } = recordedOutput(false);
  const steps = ['cached', 'cached', 'cached', 'succeeded'].map((status) => ({ status, description: 'RUN a' }));
  const build = { steps, status: 'succeeded' } as TemplateBuild;
  const progress = new BuildProgress(output, [], () => now);
  now = 12_000;
  await progress.finish(build);
  assert.equal(text(), '[1-3/4] 3 steps cached\n[4/4] RUN a\nbuilt in 12 s\n');
});

it('the progress of a build prints the cached steps in one line although the service notes each', async () => {
  const { output, text } = recordedOutput(false);
  const steps = ['cached', 'cached', 'running'].map((status) => ({ status, description: 'RUN a' }));
  const build = async () => ({ steps }) as TemplateBuild;
  const progress = new BuildProgress(output, []);
  for (const step of [1, 2])
    await progress.add({ step, stream: 'system', data: `Step ${step}: cached\n` } as TemplateBuildLogEntry, build);
  await progress.add({ step: 3, stream: 'stdout', data: 'a\n' } as TemplateBuildLogEntry, build);
  assert.equal(text(), '[1-2/3] 2 steps cached\n[3/3] RUN a\na\n');
});

it('the progress of a build shows on a terminal which step runs and for how long, in a last line that gives way to output', async () => {
  let now = 0;
  const { output, text } = recordedOutput(true);
  const build = { steps: [{ status: 'running', description: `RUN ${'long '.repeat(30)}` }] } as TemplateBuild;
  using progress = new BuildProgress(output, [], () => now);
  const add = (data: string) =>
    progress.add({ step: 1, stream: 'stdout', data } as TemplateBuildLogEntry, async () => build);
  await progress.draw();
  await add('a\n');
  now = 5_000;
  await progress.draw();
  const [, last = ''] = text().split('a\n');
  assert.ok(last.startsWith('\r\u001b[2K[1/1] RUN long '));
  assert.match(last, /… {2}5 s$/);
  assert.ok(last.replace('\r\u001b[2K', '').length < 80);
  await add('half a line');
  assert.ok(text().endsWith('  5 s\r\u001b[2Khalf a line'));
  // The line that a program has begun stays.
  await progress.draw();
  assert.ok(text().endsWith('half a line'));
});
