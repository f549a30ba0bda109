import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createProgress, describeProblem, SetupProblem, silentProgress } from './progress.ts';
import { runLogged } from './run-logged.ts';

function recording(isTTY: boolean) {
  let text = '';
  return { isTTY, write: (more: string) => (text += more), text: () => text };
}

function clockOf(...times: number[]): () => number {
  return () => times.shift() ?? 0;
}

describe('progress', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cloche-progress-'));
  });
  after(() => rm(folder, { recursive: true }));

  it('is one plain line a step where there is no terminal', async () => {
    const out = recording(false);
    const progress = createProgress(out, clockOf(0, 3210));
    await progress.step('apt packages', '', async (note) => note('crun'));
    assert.equal(out.text(), '✔ apt packages  3.2 s  crun\n');
  });

  it('ends with the same line on a terminal', async () => {
    const out = recording(true);
    await createProgress(out, clockOf(0, 100)).step('host', '', async () => {});
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours and the cleared line are control characters.
    const plain = out.text().replace(/\r|\u001b\[[0-9;]*[a-zA-Z]/g, '');
    assert.equal(plain.trimEnd(), '✔ host  0.1 s');
  });

  it('gives what the work gives', async () => {
    assert.equal(await silentProgress.step('x', '', async () => 7), 7);
  });

  it('tells of a failed step the last lines of its log, and what to do', async () => {
    const out = recording(false);
    const logFile = join(folder, 'step.log');
    const work = () => runLogged('sh', ['-c', 'seq 1 50; echo broken >&2; exit 4'], { logFile });
    const failure = await createProgress(out, clockOf(0, 0))
      .step('templates', 'Try again.', work)
      .catch((error: unknown) => error);
    assert.equal(out.text(), '✖ templates  0.0 s\n');
    assert.ok(failure instanceof SetupProblem);
    const text = describeProblem(failure);
    assert.match(text, /^templates: `sh .* exited with 4/);
    assert.match(text, / │ 50\n {2}│ broken\n/);
    assert.doesNotMatch(text, /│ 30\n/);
    assert.ok(text.endsWith('Try again.'));
  });

  it('tells of a command that does not exist', async () => {
    const logFile = join(folder, 'none.log');
    await assert.rejects(runLogged('/does/not/exist', [], { logFile }), /could not run: .*ENOENT/);
  });
});
