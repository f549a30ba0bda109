import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { TemplateBuild, TemplateBuildLogEntry } from '@cloche/contract';
import { recordedOutput } from '../testing/run-in-process.ts';
import { BuildProgress } from './build-progress.ts';

it('prints each step once, with its output, its time, and whether it was cached', async () => {
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
