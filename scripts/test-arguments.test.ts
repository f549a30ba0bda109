import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { describeNotRun, QUICK_STAGES, ROOTLESS_STAGES, readTestArguments } from './test-arguments.ts';

const STAGES = ['types', 'lint', 'unit', 'prepare', 'python', 'runtime', 'e2e'];

/** Returns the plan for these arguments, and the message about what it leaves out. */
function planned(...args: string[]) {
  return plannedFor(true, args);
}

function plannedFor(isRoot: boolean, args: readonly string[]) {
  const read = readTestArguments(args, STAGES, isRoot);
  if (read.kind !== 'run') return assert.fail(read.text);
  return { ...read, notRun: describeNotRun(read, STAGES) };
}

describe('npm test', () => {
  it('npm test runs every stage and leaves nothing out', () => {
    assert.deepEqual(planned(), {
      kind: 'run',
      stages: STAGES,
      skipped: [],
      comparesHost: true,
      isWhole: true,
      notRun: undefined,
    });
  });

  it('npm test runs the named stages in their own order, and says what it left out', () => {
    const { stages, comparesHost, notRun } = planned('unit', 'types');
    assert.deepEqual(stages, ['types', 'unit']);
    assert.equal(comparesHost, true);
    assert.equal(notRun, 'Not run: lint, prepare, python, runtime, e2e. `npm test` runs everything.');
  });

  it('npm test runs without sandboxes when it is to be quick, and says what it left out', () => {
    const { stages, comparesHost, notRun } = planned('quick');
    assert.deepEqual(stages, QUICK_STAGES);
    assert.equal(comparesHost, false);
    assert.match(
      notRun ?? '',
      /^Not run: prepare, python, runtime, e2e, the check of what the tests leave on the host\./,
    );
  });

  const WITHOUT_ROOT: readonly (readonly [string[], string[], string[]])[] = [
    [['quick'], ['types', 'lint', 'unit'], []],
    [['python'], ['python'], []],
    [['python', 'lint'], ['lint', 'python'], []],
    [['e2e', 'unit'], ['unit'], ['e2e']],
    [['runtime'], [], ['runtime']],
    [[], ['types', 'lint', 'unit', 'python'], ['prepare', 'runtime', 'e2e']],
  ];
  for (const [args, stages, skipped] of WITHOUT_ROOT) {
    it(`without root skips what of "${args.join(' ')}" needs it, and does not compare the host`, () => {
      const plan = plannedFor(false, args);
      assert.deepEqual([plan.stages, plan.skipped], [stages, skipped]);
      assert.deepEqual([plan.comparesHost, plan.isWhole], [false, false]);
    });
  }

  it('npm test knows each stage that needs no root', () => {
    const source = readFileSync('scripts/run-tests.ts', 'utf8');
    for (const name of ROOTLESS_STAGES) assert.match(source, new RegExp(`name: '${name}'`));
  });

  it('npm test refuses a stage that does not exist, and names those that do', () => {
    const read = readTestArguments(['unit', 'e2e-kvm'], STAGES, true);
    assert.equal(read.kind, 'error');
    assert.match(
      read.kind === 'error' ? read.text : '',
      /no stage "e2e-kvm"[\s\S]*types, lint, unit, prepare, python, runtime, e2e/,
    );
  });

  it('npm test refuses stages beside quick', () => {
    assert.equal(readTestArguments(['quick', 'e2e'], STAGES, true).kind, 'error');
  });

  it('npm test explains itself', () => {
    const read = readTestArguments(['unit', '--help'], STAGES, false);
    assert.match(read.kind === 'help' ? read.text : '', /npm test -- quick {6}types, lint, unit:/);
  });
});
