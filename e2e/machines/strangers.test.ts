/**
 * Follows the README on a fresh Debian, with the Node of Debian's packages. Templates come from the cache of this machine,
 * because building them takes minutes.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { execa } from 'execa';
import { type Release, UserLand } from './support/user-land.ts';

const CACHE = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
const CHECKOUT = '/opt/cloche';
/** A port that no service of a test has: theirs are in the range of outgoing connections. */
const PORT = '4699';
const COPY = `mkdir --parents "$1"
git ls-files -z --cached --others --exclude-standard |
  tar --create --null --files-from=- --ignore-failed-read | tar --extract --directory="$1"`;
/** What a person does in two terminals, with all that each printed. */
const FIRST_RESULT = `
cd ${CHECKOUT}
npm start > /tmp/start.log 2>&1 &
service=$!
while kill -0 $service 2>/dev/null && ! grep -q 'Cloche serves' /tmp/start.log; do sleep 0.2; done
cat /tmp/start.log
npx cloche run -c 'import pandas; print("first result", 6 * 7)'
npx cloche doctor --json > /tmp/doctor.json
npx cloche admin destroy-all
kill -INT $service
wait $service
`;

for (const release of ['bookworm', 'trixie'] satisfies Release[]) {
  describe(`a fresh Debian ${release}`, () => {
    let land: UserLand;
    before(async () => {
      // What npm has downloaded before is downloaded once for all user lands.
      const { stdout: npmCache } = await execa('npm', ['config', 'get', 'cache']);
      land = await UserLand.open(release, ['npm'], { [CACHE]: '/var/cache/cloche', [npmCache]: '/root/.npm' });
      // As `git clone` leaves it: without dependencies.
      await execa('bash', ['-euo', 'pipefail', '-c', COPY, 'copy', land.path(CHECKOUT)]);
    });
    after(() => land?.[Symbol.asyncDispose]());

    it(`a fresh Debian ${release} has a first result after \`npm start\``, { timeout: 900_000 }, async (t) => {
      const begun = performance.now();
      const { all, exitCode } = await land.run(FIRST_RESULT, { CLOCHE_PORT: PORT });
      t.diagnostic(`${((performance.now() - begun) / 1000).toFixed(0)} s`);
      assert.match(all, /^first result 42$/m, all);
      assert.match(all, /✔ npm packages/, all);
      assert.equal(exitCode, 0, all);
      const { data } = JSON.parse(readFileSync(land.path('tmp/doctor.json'), 'utf8'));
      const missing = data.filter(({ status }: { status: string }) => status === 'missing');
      assert.deepEqual(missing, []);
    });
  });
}
