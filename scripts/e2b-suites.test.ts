import assert from 'node:assert/strict';
import { it } from 'node:test';
import { casesOf, tableOf } from './e2b-suites.ts';

const VITEST = JSON.stringify({
  testResults: [
    {
      name: '/suites/js/tests/files/read.test.ts',
      assertionResults: [
        { fullName: 'read a file', status: 'passed' },
        { fullName: 'read as root', status: 'failed', failureMessages: ['AssertionError: no\n    at x'] },
        { fullName: 'not run', status: 'skipped' },
      ],
    },
    { name: '/suites/js/tests/fork.test.ts', assertionResults: [{ fullName: 'fork', status: 'failed' }] },
  ],
});
const PYTEST = `<testsuite><testcase classname="tests.files.test_read" name="test_read" time="1" />
<testcase classname="tests.files.test_read" name="test_late"><failure message="late&#10;more">trace</failure></testcase>
<testcase classname="tests.files.test_read" name="test_no"><skipped message="no" /></testcase></testsuite>`;

it('the reader of reports counts the cases of both kinds of reports, names those that failed, and leaves out what no service decides', () => {
  const table = tableOf({ js: casesOf('a.json', VITEST), python: casesOf('b.xml', PYTEST) });
  assert.match(table, /\| js \| 2 \| 1 \| 1 \|\n\| python \| 2 \| 1 \| 0 \|\n\| all \| 4 \| 2 \| 1 \|/);
  assert.match(table, /- 1 make snapshots or forks/);
  const failed = '- files/read.test.ts: read as root: AssertionError: no\n- tests.files.test_read: test_late: late\n';
  assert.ok(table.endsWith(`\n${failed}`), table);
});
