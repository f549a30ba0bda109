import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { StageReport } from './stage-report.ts';
import { groupTests } from './test-groups.ts';

/** Files of one group. `globalThis.hooks` counts how often the hooks of the first file ran. */
const FILES: Record<string, string> = {
  'a-hooks.test.ts': `
    beforeEach(() => { globalThis.hooks = (globalThis.hooks ?? 0) + 1; });
    test('a test runs after its hook', () => assert.equal(globalThis.hooks, 1));`,
  'b-other.test.ts': `test('runs without hooks of another file', () => assert.equal(globalThis.hooks, 1));`,
  'c-fails.test.ts': `
    describe('a suite', () => { test('fails', () => { throw new Error('here'); }); });`,
  'd-broken.test.ts': `throw new Error('while it loads');`,
  'e-waits.test.ts': `await 0;`,
  'f-last.test.ts': `test('runs after a file that cannot be loaded, for 60 ms', (_, done) => setTimeout(done, 60));`,
};

const folder = mkdtempSync(join(tmpdir(), 'cloche-test-groups-'));
let report: StageReport;
let printed: string;
let status: number | null;
before(() => {
  const files = Object.entries(FILES).map(([name, code]) => {
    const imports =
      "import assert from 'node:assert/strict';\nimport { beforeEach, describe, test } from 'node:test';\n";
    writeFileSync(join(folder, name), imports + code);
    return join(folder, name);
  });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const json = join(folder, 'report.json');
  const reporters = ['./scripts/terse-reporter.ts', 'stdout', './scripts/stage-report.ts', json];
  const options = reporters.map((value, index) => `--test-reporter${index % 2 ? '-destination' : ''}=${value}`);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const program = ['--test', ...options, ...groupTests(files, folder)];
  ({ stdout: printed, status } = spawnSync(process.execPath, program, { encoding: 'utf8', env }));
  report = JSON.parse(readFileSync(json, 'utf8'));
});
after(() => rmSync(folder, { recursive: true }));

describe('a group of test files', () => {
  it('a group of test files runs the tests of each file, with the hooks of that file alone', () => {
    assert.deepEqual([report.passed, report.failed], [3, 1]);
  });

  it('a group of test files names the file of a test that fails', () => {
    assert.match(report.failures, /c-fails\.test\.ts:\d+: fails\n {4}Error: here/);
    assert.match(printed, /^✖ .*c-fails\.test\.ts {2}0 passed, 1 failed, /m);
  });

  it('a group of test files fails when one of its files cannot be loaded, and names it', () => {
    assert.equal(status, 1);
    assert.match(report.failures, /: \S*d-broken\.test\.ts\n {4}Error: while it loads/);
    assert.match(report.failures, /: \S*e-waits\.test\.ts\n {4}Error \[ERR_REQUIRE_ASYNC_MODULE\]/);
  });

  it('a group of test files has at most sixteen files', () => {
    const many = join(folder, 'many');
    mkdirSync(many);
    const files = Array.from({ length: 33 }, (_, index) => `${index}.test.ts`);
    const members = groupTests(files, many).map(
      (path) => readFileSync(path, 'utf8').match(/(?<=describe\(")[^"]+/g) ?? [],
    );
    assert.deepEqual(
      members.map(({ length }) => length),
      [11, 11, 11],
    );
    assert.deepEqual(members.flat().sort(), files.sort());
  });

  it('a group of test files has files of one package', () => {
    const files = [
      'packages/clients/cli/src/a.test.ts',
      'packages/clients/sdk/src/b.test.ts',
      'packages/clients/cli/src/c.test.ts',
    ];
    const groups = groupTests(files, folder).map((path) => readFileSync(path, 'utf8'));
    assert.deepEqual(
      groups.map((text) => files.filter((file) => text.includes(file))),
      [[files[0], files[2]], [files[1]]],
    );
  });
});

describe('the line of a grouped file', () => {
  it('the line of a grouped file has the time of its tests, as the report has', () => {
    assert.match(printed, /f-last\.test\.ts {2}1 passed, 0 failed, (?!0\.0)/);
    const last = Object.keys(report.seconds).find((file) => file.endsWith('f-last.test.ts'));
    assert.ok((report.seconds[last ?? ''] ?? 0) > 0.05);
  });
});
