/**
 * A machine without any network starts from an archive of templates: dependencies are installed, its cache is empty.
 * Templates of the archive come from the cache of this machine, because building them takes minutes.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { execa } from 'execa';
import { appointHeir } from '../support/service-heir.ts';

const CLOCHE = `"${process.execPath}" packages/clients/cli/bin/cloche.mjs`;
/** Of the namespace, which no other service is in. */
const PORT = '4711';
const FIRST_RESULT = `
ip link set lo up
now() { date +%s%3N; }
begun=$(now)
${CLOCHE} template import "$1" || exit
imported=$(now)
"${process.execPath}" scripts/start.mjs > "$2/start.log" 2>&1 &
service=$!
while kill -0 $service 2>/dev/null && ! grep -q 'Cloche serves' "$2/start.log"; do sleep 0.1; done
serves=$(now)
cat "$2/start.log"
${CLOCHE} run -c 'import pandas; print("first result", 6 * 7)'
${CLOCHE} admin destroy-all
kill -INT $service
wait $service
echo "import $((imported - begun)) ms, start $((serves - imported)) ms"
`;

it('a machine without a network serves from an archive of templates', { timeout: 600_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-archive-'));
  // The server's user must be able to enter it.
  chmodSync(folder, 0o711);
  const dataDir = join(folder, 'data');
  mkdirSync(dataDir);
  const runDir = join('/run/cloche', seedInstallationId(dataDir));
  using _heir = appointHeir(dataDir, runDir);
  try {
    const settings = join(folder, 'none.env');
    writeFileSync(settings, '');
    const archive = join(folder, 'templates.tar');
    const begun = performance.now();
    await execa('sh', ['-c', `${CLOCHE} template export "$1"`, 'sh', archive]);
    t.diagnostic(`export ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    const inside = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
    const { all, exitCode } = await execa('unshare', [...inside, 'sh', '-c', FIRST_RESULT, 'sh', archive, folder], {
      env: {
        HOME: folder,
        CLOCHE_CACHE_DIR: join(folder, 'cache'),
        CLOCHE_DATA_DIR: dataDir,
        CLOCHE_RUN_DIR: runDir,
        CLOCHE_PORT: PORT,
        CLOCHE_CONFIG_FILE: settings,
      },
      all: true,
      reject: false,
      forceKillAfterDelay: 20_000,
    });
    assert.equal(exitCode, 0, all);
    assert.match(all, /^first result 42$/m, all);
    assert.match(all, /✔ template python-node/, all);
    assert.doesNotMatch(all, /built once/, all);
    t.diagnostic(all);
  } finally {
    for (const left of [folder, runDir]) rmSync(left, { recursive: true, force: true });
  }
});
