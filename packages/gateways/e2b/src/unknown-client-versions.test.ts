import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { it } from 'node:test';
import pino from 'pino';
import { TESTED, UnknownClientVersions } from './unknown-client-versions.ts';

it('the log notes a client of an unknown newer version once, and no other client', () => {
  const lines: string[] = [];
  const versions = new UnknownClientVersions(pino({}, { write: (line) => void lines.push(line) }));
  const [major, minor] = TESTED.js ?? [0, 0];
  for (const version of [`${major}.${minor}.7`, `${major}.0.0`, `${major - 1}.999.0`])
    versions.log(`e2b-js-sdk/${version}`);
  for (const other of [undefined, 'curl/8', 'e2b-js-sdk/x', 'e2b-go-sdk/99.0']) versions.log(other);
  assert.deepEqual(lines, []);
  for (const _ of [1, 2]) versions.log(`e2b-js-sdk/${major}.${minor + 1}.0 source/app`);
  versions.log(`e2b-python-sdk/${major + 1}.0.0`);
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).client),
    [`e2b-js-sdk/${major}.${minor + 1}`, `e2b-python-sdk/${major + 1}.0`],
  );
  for (let count = 0; count < 1000; count++) versions.log(`e2b-js-sdk/90.${count}`);
  assert.equal(lines.length, 100);
});

it('the table holds the versions that the tests install', () => {
  const folder = dirname(dirname(createRequire(import.meta.url).resolve('e2b')));
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  assert.ok(version.startsWith(`${TESTED.js?.join('.')}.`), version);
  const requirements = readFileSync(join(import.meta.dirname, '../../../../requirements-e2b.txt'), 'utf8');
  assert.ok(requirements.includes(`\ne2b==${TESTED.python?.join('.')}.`));
});
