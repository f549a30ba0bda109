import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createProgress, describeFailure, SetupError, silentProgress } from './progress.ts';
import { runLogged } from './run-logged.ts';

function recording(isTTY: boolean) {
  let text = '';
  return { isTTY, write: (more: string) => (text += more), text: () => text };
}

/** Returns the visible line: the text since the line was cleared, without colours. */
function lastLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours and the cleared line are control characters.
  return (text.split('\r').at(-1) ?? '').replace(/\u001b\[[0-9;]*[a-zA-Z]/g, '');
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

  it('progress is one plain line a step where there is no terminal', async () => {
    const out = recording(false);
    const progress = createProgress(out, clockOf(0, 3210));
    await progress.step('apt packages', '', async (note) => note('crun'));
    assert.equal(out.text(), '✔ apt packages  3.2 s  crun\n');
  });

  it('ends with the same line on a terminal', async () => {
    const out = recording(true);
    await createProgress(out, clockOf(0, 100)).step('host', '', async () => {});
    assert.equal(lastLine(out.text().trimEnd()), '✔ host  0.1 s');
  });

  it('tells of steps that run at the same time on one line no wider than the terminal, of each once more at its end', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const out = { ...recording(true), columns: 47 };
    const progress = createProgress(out, () => 0);
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const steps = [
      progress.step('template node', '', () => first.promise),
      progress.step('template python-node', '', () => second.promise),
    ];
    t.mock.timers.tick(100);
    const line = lastLine(out.text());
    assert.match(line, /template node .*template python-node/);
    assert.equal(line.length, 46);
    second.resolve();
    await steps[1];
    assert.equal(lastLine(out.text().trimEnd()), '✔ template python-node  0.0 s');
    t.mock.timers.tick(100);
    assert.doesNotMatch(lastLine(out.text()), /python/);
    first.resolve();
    await steps[0];
    const text = out.text();
    t.mock.timers.tick(1000);
    assert.equal(out.text(), text);
  });

  it('progress gives what the work gives', async () => {
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
    assert.ok(failure instanceof SetupError);
    const text = describeFailure(failure);
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
