import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { ERRORS, PREVIEW_ERRORS, SERVICE_ERROR_NAMES } from '@cloche/contract';
import { TESTS_ON_V2 } from '../e2e/machines/vm/tests.ts';
import { HOST_SYSCTLS } from '../packages/host-checks/src/index.ts';
import { hostEntryTables } from './host-entry-tables.ts';
import { settingsTable } from './settings-table.ts';

const read = (path: string) => readFileSync(path, 'utf8');

/** Wording in docs/errors.md for each value of `retryable` in the catalogue. */
const REPETITIONS: Readonly<Record<string, string>> = {
  after: 'after `Retry-After`',
  true: 'if it may be executed twice',
  false: 'no',
};

/** Tests of the threat model whose result can depend on the kind of control groups. */
const DEPEND_ON_CONTROL_GROUPS = [
  'limits',
  'process-limit',
  'fairness',
  'socket-buffers',
  'kernel-tables',
  'container',
  'lying-guest',
  'forked-kernels',
  'checks',
  'pool.runtime',
  'launcher.runtime',
  'confinement.runtime',
  'processor-and-swap.runtime',
  'sandbox-zygote.runtime',
].map((name) => `${name}.test.ts`);

describe('docs/errors.md', () => {
  it('has a row for each error of the catalogue, with its status, and no others', () => {
    const rows = [...read('docs/errors.md').matchAll(/^\| `(\w+)`\s*\| (\d+)\s*\|/gm)].map(([, code, status]) => [
      code,
      Number(status),
    ]);
    assert.deepEqual(
      Object.fromEntries(rows),
      Object.fromEntries(Object.entries(ERRORS).map(([code, { status }]) => [code, status])),
    );
  });

  it('says for each error whether to repeat the request, and names every field of its details', () => {
    for (const [code, { retryable, details }] of Object.entries(ERRORS)) {
      const row = new RegExp(`^\\| \`${code}\` \\| \\d+ \\| (.+?) \\|.*$`, 'm').exec(read('docs/errors.md'));
      assert.ok(row, code);
      assert.equal(row[1], REPETITIONS[`${retryable}`], code);
      const named = [...row[0].matchAll(/`details\.(\w+)`/g)].map(([, field]) => field);
      assert.deepEqual(named.sort(), Object.keys(details?.properties ?? {}).sort(), code);
    }
  });

  it('has a row for each error of a preview, with its status, and no others', () => {
    const rows = [...read('docs/errors.md').matchAll(/^\| (\d+) \| `(preview_\w+)` \|/gm)];
    assert.deepEqual(
      Object.fromEntries(rows.map(([, status, code]) => [code, Number(status)])),
      Object.fromEntries(Object.entries(PREVIEW_ERRORS).map(([code, { status }]) => [code, status])),
    );
  });

  it("has a row for each of the service's own errors of a run", () => {
    for (const name of SERVICE_ERROR_NAMES) assert.match(read('docs/errors.md'), new RegExp(`^\\| \`${name}\``, 'm'));
  });
});

describe('docs/operations.md', () => {
  it('has the table of settings as the processes read them', () => {
    assert.ok(
      read('docs/operations.md').includes(settingsTable()),
      'put in what `node_modules/.bin/node scripts/settings-table.ts` prints',
    );
  });

  it('has a row for each sysctl that `npm start` raises, with its value, and no others', () => {
    const rows = [...read('docs/operations.md').matchAll(/^\| `([a-z0-9_.-]+\.[a-z0-9_.-]+)` \| (\d+) \|/gm)];
    assert.deepEqual(
      Object.fromEntries(rows.map(([, name, atLeast]) => [name, Number(atLeast)])),
      Object.fromEntries(HOST_SYSCTLS.map(({ name, atLeast }) => [name, atLeast])),
    );
  });
});

describe('docs/network-policy.md', () => {
  it('has the rules of host entries as the service goes by them', () => {
    assert.ok(
      read('docs/network-policy.md').includes(hostEntryTables()),
      'put in what `node_modules/.bin/node scripts/host-entry-tables.ts` prints',
    );
  });
});

describe('docs/specification.md', () => {
  const promises = [...read('docs/specification.md').matchAll(/^\| (\d+\.\d+) \| (.+?) \| `([^`]+)`: (.+?) \|$/gm)];

  it('numbers each promise once', () => {
    const numbers = promises.map(([, number]) => number);
    assert.ok(numbers.length > 0);
    assert.equal(new Set(numbers).size, numbers.length);
  });

  for (const [, number, , file = '', title = ''] of promises) {
    it(`${number} names a test that exists`, () => {
      assert.ok(existsSync(file), file);
      assert.ok(read(file).includes(title), `${file} has no test "${title}"`);
    });
  }
});

describe('docs/threat-model.md', () => {
  it('names only tests that exist', () => {
    const files = globSync('{packages,e2e,scripts}/**/*.test.ts', { exclude: ['**/node_modules/**'] });
    const named = [
      ...read('docs/threat-model.md').matchAll(/`([\w./-]+\.test\.ts)`(?: \(v[12, v]+\))?(?:: ([^|`]+))?/g),
    ];
    assert.ok(named.length > 0);
    const missing = named.flatMap(([, name = '', titles = '']) => {
      const found = files.filter((file) => `/${file}`.endsWith(`/${name}`));
      const text = found.map(read).join('\n');
      // A remark may follow the titles, as a sentence of its own.
      const [list = ''] = titles.split('. ');
      const absent = list.split(';').filter((title) => !text.includes(title.trim()));
      return found.length === 0 ? [name] : absent.map((title) => `${name}: ${title}`);
    });
    assert.deepEqual(missing, []);
  });

  it('names the kinds of control groups on which a test ran, for each test that depends on them', () => {
    const named = [...read('docs/threat-model.md').matchAll(/`[\w./-]*?([\w.-]+\.test\.ts)`(?: \((v[12, v]+)\))?/g)];
    const wrong = named.flatMap(([, name = '', kinds]) => {
      const onBoth = TESTS_ON_V2.some((file) => basename(file) === name);
      const expected = DEPEND_ON_CONTROL_GROUPS.includes(name) ? (onBoth ? 'v1, v2' : 'v1') : undefined;
      return kinds === expected ? [] : [`${name}: ${kinds}, not ${expected}`];
    });
    assert.deepEqual(wrong, []);
  });
});

describe('the decisions in docs/adr', () => {
  it('have a number each, in their name and their title', () => {
    const files = globSync('docs/adr/[0-9]*.md').sort();
    const numbers = files.map((file) => Number(basename(file).slice(0, 4)));
    assert.deepEqual(numbers, [...new Set(numbers)]);
    for (const [index, file] of files.entries()) assert.match(read(file), new RegExp(`^# ${numbers[index]}\\. `), file);
  });
});

describe('every document', () => {
  for (const file of globSync(['*.md', 'docs/**/*.md', 'adapters/*/README.md'])) {
    it(`${file} links only to files that exist`, () => {
      for (const [, target = ''] of read(file).matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
        assert.ok(existsSync(join(dirname(file), target)), target);
      }
    });
  }
});
