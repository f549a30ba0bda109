import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

/** Runs a script in its own network namespace, where a flush affects no other test. */
function inNamespace(script: string): string {
  const module = `import { OwnedRules } from ${JSON.stringify(new URL('./owned-rules.ts', import.meta.url).href)};
    import { execFileSync } from 'node:child_process';
    const nft = (...args) => execFileSync('nft', args, { encoding: 'utf8', stdio: 'pipe' });`;
  const node = [process.execPath, '--input-type=module', '-e', module + script];
  return execFileSync('unshare', ['--net', '--', ...node], { encoding: 'utf8' });
}

const OWN = '`table inet own {\\n flags owner\\n chain c {\\n type filter hook input priority 0\\n }\\n}\\n`';

test("owned rules survive a flush of the host's rules, and are removed with their owner", () => {
  const shown = inNamespace(`using rules = new OwnedRules(); rules.apply(${OWN}); nft('add', 'table', 'inet', 'others');
    nft('flush', 'ruleset'); console.log(nft('list', 'tables'));
    rules[Symbol.dispose] = () => {}; `);
  assert.equal(shown.trim(), 'table inet own');
});

test('started programs do not inherit the socket that owns the rules', () => {
  const shown = inNamespace(`const rules = new OwnedRules(); rules.apply(${OWN});
    console.log(execFileSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));`);
  assert.deepEqual(shown.match(/ (?:[3-9]|\d\d+) -> socket:.*/g), null);
});

test("an error of nft is thrown with nft's message", () => {
  assert.match(
    inNamespace(`try { new OwnedRules().apply('nonsense\\n'); } catch (error) { console.log(error.message); }`),
    /nft refused the rules: .*syntax error/,
  );
});
