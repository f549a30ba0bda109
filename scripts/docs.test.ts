import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { describe, it } from 'node:test';
import { ERRORS, EVENT_TYPES, PREVIEW_ERRORS, SERVICE_ERROR_NAMES } from '@cloche/contract';
import { TESTS_ON_V2 } from '../e2e/machines/vm/tests.ts';
import { HOST_SYSCTLS } from '../packages/host/host-checks/src/index.ts';
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
  'reclaim.runtime',
  'sandbox-zygote.runtime',
].map((name) => `${name}.test.ts`);

/** Whether a test, or a group of tests, of `file` has a title that begins with `title`. */
function hasTitle(file: string, title: string): boolean {
  const begins = file.endsWith('.py') ? [`def ${title}`] : ["'", '"', '`'].map((quote) => quote + title);
  return begins.some((beginning) => read(file).includes(beginning));
}

it('docs/guides/events.md has a row for each type of event', () => {
  const rows =
    read('docs/guides/events.md')
      .match(/^\| `[a-z_]+\..*$/gm)
      ?.join('\n') ?? '';
  const missing = EVENT_TYPES.filter((type) => {
    const [group] = type.split('.');
    return !rows.includes(`\`${type}\``) && !rows.includes(`\`${group}.\` and a`);
  });
  assert.deepEqual(missing, []);
});

describe('docs/errors.md', () => {
  it('docs/errors.md has a row for each error of the catalogue, with its status, and no others', () => {
    const rows = [...read('docs/errors.md').matchAll(/^\| `(\w+)`\s*\| (\d+)\s*\|/gm)].map(([, code, status]) => [
      code,
      Number(status),
    ]);
    assert.deepEqual(
      Object.fromEntries(rows),
      Object.fromEntries(Object.entries(ERRORS).map(([code, { status }]) => [code, status])),
    );
  });

  it('docs/errors.md says for each error whether to repeat the request, and names every field of its details', () => {
    for (const [code, { retryable, details }] of Object.entries(ERRORS)) {
      const row = new RegExp(`^\\| \`${code}\` \\| \\d+ \\| (.+?) \\|.*$`, 'm').exec(read('docs/errors.md'));
      assert.ok(row, code);
      assert.equal(row[1], REPETITIONS[`${retryable}`], code);
      const named = [...row[0].matchAll(/`details\.(\w+)`/g)].map(([, field]) => field);
      assert.deepEqual(named.sort(), Object.keys(details?.properties ?? {}).sort(), code);
    }
  });

  it('docs/errors.md has a row for each error of a preview, with its status, and no others', () => {
    const rows = [...read('docs/errors.md').matchAll(/^\| (\d+) \| `(\w+)` \|/gm)];
    assert.deepEqual(
      Object.fromEntries(rows.map(([, status, code]) => [code, Number(status)])),
      Object.fromEntries(Object.entries(PREVIEW_ERRORS).map(([code, { status }]) => [code, status])),
    );
  });

  it("docs/errors.md has a row for each of the service's own errors of a run", () => {
    for (const name of SERVICE_ERROR_NAMES) assert.match(read('docs/errors.md'), new RegExp(`^\\| \`${name}\``, 'm'));
  });
});

describe('docs/operating', () => {
  it('docs/operating has the table of settings as the processes read them', () => {
    assert.ok(
      read('docs/operating/settings.md').includes(settingsTable()),
      'put in what `node_modules/.bin/node scripts/settings-table.ts` prints',
    );
  });

  it('docs/operating has a row for each sysctl that `npm start` raises, with its value, and no others', () => {
    const rows = [...read('docs/operating/host.md').matchAll(/^\| `([a-z0-9_.-]+\.[a-z0-9_.-]+)` \| (\d+) \|/gm)];
    assert.deepEqual(
      Object.fromEntries(rows.map(([, name, atLeast]) => [name, Number(atLeast)])),
      Object.fromEntries(HOST_SYSCTLS.map(({ name, atLeast }) => [name, atLeast])),
    );
  });
});

describe('docs/network-policy.md', () => {
  it('docs/network-policy.md has the rules of host entries as the service goes by them', () => {
    assert.ok(
      read('docs/network-policy.md').includes(hostEntryTables()),
      'put in what `node_modules/.bin/node scripts/host-entry-tables.ts` prints',
    );
  });
});

describe('docs/promises.md', () => {
  const rows = read('docs/promises.md').match(/^\| \d.*$/gm) ?? [];
  const promises = rows.map((row) => /^\| (\d+\.\d+) \| (.+?) \| `([^`]+)`: (.+?) \|$/.exec(row) ?? [row]);

  it('docs/promises.md numbers each promise once, in order', () => {
    const numbers = promises.map(([, number]) => number?.split('.').map(Number));
    const inOrder = Map.groupBy(numbers, (number) => number?.[0]).values();
    assert.deepEqual(
      numbers,
      [...inOrder].flatMap((section) => section.map((number, index) => [number?.[0], index + 1])),
    );
  });

  it('docs/promises.md has at most 260: a further promise of a kind extends the sentence of this kind', () => {
    assert.ok(promises.length > 0 && promises.length <= 260, `${promises.length}`);
  });

  for (const [row, number, , file = '', titles = ''] of promises) {
    it(`${number ?? row} names tests that exist`, () => {
      assert.ok(existsSync(file), file);
      const missing = titles.split('; ').filter((title) => !hasTitle(file, title));
      assert.deepEqual(missing, [], file);
    });
  }
});

describe('docs/threat-model.md', () => {
  it('docs/threat-model.md names only tests that exist', () => {
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

  it('docs/threat-model.md names the kinds of control groups on which a test ran, for each test that depends on them', () => {
    const named = [...read('docs/threat-model.md').matchAll(/`[\w./-]*?([\w.-]+\.test\.ts)`(?: \((v[12, v]+)\))?/g)];
    const wrong = named.flatMap(([, name = '', kinds]) => {
      const onBoth = TESTS_ON_V2.some((file) => basename(file) === name);
      const expected = DEPEND_ON_CONTROL_GROUPS.includes(name) ? (onBoth ? 'v1, v2' : 'v1') : undefined;
      return kinds === expected ? [] : [`${name}: ${kinds}, not ${expected}`];
    });
    assert.deepEqual(wrong, []);
  });
});

/** Returns the names of the headings of a document, as links name them. */
function anchorsOf(text: string): Set<string> {
  const names = new Set<string>();
  for (const [, heading = ''] of text.replace(/^```.*?^```/gms, '').matchAll(/^#+ (.+)$/gm)) {
    const shown = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const name = shown.replace(/[^\w\- ]/g, '').replaceAll(' ', '-');
    let unique = name;
    for (let count = 1; names.has(unique); count++) unique = `${name}-${count}`;
    names.add(unique);
  }
  return names;
}

/** Returns the links of a document that lead to no file, or to no heading of a document. */
function deadLinks(file: string, text: string): string[] {
  return [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)].flatMap(([, target = '', anchor]) => {
    const path = target === '' ? file : normalize(join(dirname(file), target));
    if (!existsSync(path)) return [target];
    const isDead = anchor !== undefined && path.endsWith('.md') && !anchorsOf(read(path)).has(anchor);
    return isDead ? [`${target}#${anchor}`] : [];
  });
}

/** Returns the decisions and documents that a text names and that are not there. */
function missingDocuments(text: string): string[] {
  const decisions = [...text.matchAll(/\bADR\s+(\d+)/g)].filter(([, number = '']) => {
    return globSync(`docs/adr/${number.padStart(4, '0')}-*.md`).length === 0;
  });
  const documents = [...text.matchAll(/\bdocs\/[\w/.-]+\.md\b/g)].filter(([path]) => !existsSync(path));
  return [...decisions, ...documents].map(([name]) => name);
}

describe('the decisions in docs/adr', () => {
  const files = globSync('docs/adr/[0-9]*.md').sort();

  it('stand in the table of docs/adr/README.md', () => {
    const rows = [...read('docs/adr/README.md').matchAll(/^\| \[\d+\]\((\d{4}-[\w-]+\.md)\) \|/gm)];
    assert.deepEqual(
      rows.map(([, name]) => name),
      files.map((file) => basename(file)),
    );
  });

  it('the decisions in docs/adr and the pages in docs/design name only tests that exist', () => {
    const tests = globSync('{packages,adapters,e2e,scripts}/**/{*.test.ts,test_*.py}', {
      exclude: ['**/node_modules/**'],
    });
    const missing = [...files, ...globSync('docs/design/*.md')].flatMap((file) =>
      [...read(file).matchAll(/`([\w./-]+\.test\.ts|test_\w+\.py)`/g)]
        .filter(([, name]) => !tests.some((test) => `/${test}`.endsWith(`/${name}`)))
        .map(([, name]) => `${file}: ${name}`),
    );
    assert.deepEqual(missing, []);
  });

  it('the decisions in docs/adr have a number each, in their name and their title', () => {
    const numbers = files.map((file) => Number(basename(file).slice(0, 4)));
    assert.deepEqual(numbers, [...new Set(numbers)]);
    for (const [index, file] of files.entries()) assert.match(read(file), new RegExp(`^# ${numbers[index]}\\. `), file);
  });
});

describe('docs/README.md', () => {
  it('links every document of docs, decisions by their own README', () => {
    const linked = [...read('docs/README.md').matchAll(/\]\(([^)#]+)/g)].map(([, target = '']) => join('docs', target));
    const documents = globSync('docs/**/*.md', { exclude: ['docs/adr/[0-9]*.md', 'docs/README.md'] });
    assert.ok(documents.length > 0);
    assert.deepEqual(
      documents.filter((path) => !linked.includes(path)),
      [],
    );
  });
});

describe('every document', () => {
  for (const file of globSync(['*.md', 'docs/**/*.md', 'adapters/*/README.md'])) {
    it(`${file} links only to files and headings that exist`, () => {
      assert.deepEqual(deadLinks(file, read(file)), []);
    });
  }

  it('every document and every source file names only documents and decisions that exist', () => {
    const files = globSync(
      ['*.md', 'docs/**/*.md', '{packages,adapters,e2e,scripts,bench}/**/*.{ts,js,mjs,cjs,py,pl,c,go,sh,md}'],
      { exclude: ['**/node_modules/**', 'packages/shared/*/build/**'] },
    );
    assert.ok(files.length > 1000);
    const missing = files
      .filter((file) => file !== 'scripts/docs.test.ts')
      .flatMap((file) => missingDocuments(read(file)).map((name) => `${file}: ${name}`));
    assert.deepEqual(missing, []);
  });

  it('a document or decision that is named and does not exist is found', () => {
    const text = 'See ADR\n9998, docs/adr/9999-none.md and docs/adr/README.md.';
    assert.deepEqual(missingDocuments(text), ['ADR\n9998', 'docs/adr/9999-none.md']);
    assert.deepEqual(deadLinks('docs/made.md', '[a](none.md) [b](adr/README.md#none) [c](adr/README.md#decisions)'), [
      'none.md',
      'adr/README.md#none',
    ]);
  });
});
