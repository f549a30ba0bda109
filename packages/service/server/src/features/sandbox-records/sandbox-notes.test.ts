import assert from 'node:assert/strict';
import { it } from 'node:test';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { SandboxNotes } from './sandbox-notes.ts';

it('notes of a sandbox stay as long as their names are kept', async () => {
  await using db = await openTestDatabase();
  const notes = new SandboxNotes(db);
  for (const sandbox of ['one', 'two']) {
    for (const name of ['cwd a', 'cwd b', 'cwd c', 'other']) await notes.put(sandbox, name, name);
  }
  await notes.keep('one', 'cwd ', ['cwd b', 'cwd new']);
  const found = async (sandbox: string) => {
    const all = await notes.all(sandbox);
    return ['cwd a', 'cwd b', 'cwd c', 'other'].map((name) => all.get(name));
  };
  assert.deepEqual(await found('one'), [undefined, 'cwd b', undefined, 'other']);
  assert.deepEqual(await found('two'), ['cwd a', 'cwd b', 'cwd c', 'other']);
  await notes.put('two', 'other', 'changed');
  assert.equal((await notes.all('two')).get('other'), 'changed');
});
