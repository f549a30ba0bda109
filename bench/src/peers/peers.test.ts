import assert from 'node:assert/strict';
import { it } from 'node:test';

// A folder without the template that peers are built from.
process.env.CLOCHE_CACHE_DIR = '/nonexistent';
const { Peers } = await import('./peers.ts');

it('a peer that cannot be started is left out, once, and the report says why', async () => {
  const said: string[] = [];
  const peers = new Peers((line) => said.push(line));
  assert.equal(await peers.jupyter(), undefined);
  assert.equal(await peers.jupyter(), undefined);
  assert.match(said.join('\n'), /^jupyter could not be started: there is no template[^\n]*$/);
  assert.match(peers.versions.jupyter ?? '', /^could not be started: there is no template/);
  await peers.close();
});
