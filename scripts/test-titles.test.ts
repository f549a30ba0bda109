import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { lacksSubject, titlesWithoutSubject } from './test-titles.ts';

/** Folders whose titles stand alone. A folder is added here when its titles do. */
const FOLDERS = ['packages', 'bench', 'e2e', 'scripts'];

describe('titles of tests', () => {
  for (const folder of FOLDERS) {
    it(`titles of tests in ${folder} name what they are about, without the title of their group`, () => {
      const files = globSync(`${folder}/**/*.test.ts`);
      assert.ok(files.length > 0);
      assert.deepEqual(
        files.flatMap((file) => titlesWithoutSubject(readFileSync(file, 'utf8')).map((found) => `${file}:${found}`)),
        [],
      );
    });
  }

  const WITHOUT = [
    'is destroyed at once',
    'are kept for a day',
    'refuses a body that is too large',
    'names every wrong field',
    'ends, with its connections, when it is deleted',
    'runs once for each key',
    'of an unknown id is not found',
    'whose server was killed is taken over',
    'without a grace ends the old key at once',
    'cannot be deleted while it is in use',
  ];
  for (const title of WITHOUT) {
    it(`titles of tests like "${title}" are found`, () => {
      assert.ok(lacksSubject(title));
      const source = `describe('a sandbox', () => {\n  it('${title}', () => {});\n  test(\n    "${title}",\n    () => {},\n  );\n});\n`;
      assert.deepEqual(titlesWithoutSubject(source), [`2: ${title}`, `3: ${title}`]);
    });
  }

  const WITH = [
    'a sandbox is destroyed at once',
    'runs of one context end in their order',
    'names that are not UTF-8 are kept',
    'lists are newest first',
    'answers from two servers are equal',
    'on PostgreSQL, a deletion locks the row',
    'GET /v1/events refuses a wrong number',
    'every operation has a case',
    'what belongs to another project is refused',
  ];
  for (const title of WITH) {
    it(`titles of tests like "${title}" are accepted`, () => {
      assert.equal(lacksSubject(title), false);
      assert.deepEqual(titlesWithoutSubject(`it(\`${title}\`, () => {});\n`), []);
    });
  }
});
