import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { test } from 'node:test';

const hasIptables = spawnSync('iptables', ['--version']).status === 0;
const skip = hasIptables ? false : 'there is no iptables here, and so no Docker';

/** Runs a script in its own network namespace, which stands for a host with Docker. */
function onHost(script: string): string {
  const { href } = new URL('./docker-user-chain.ts', import.meta.url);
  const module = `import { addDockerUserRules, removeDockerUserRules } from ${JSON.stringify(href)};
    import { execFileSync } from 'node:child_process';
    const LINKS = { open: 'clx', gated: 'cex' };
    const run = (line) => execFileSync('sh', ['-euc', line], { encoding: 'utf8', stdio: 'pipe' });`;
  const node = [process.execPath, '--input-type=module', '-e', module + script];
  return execFileSync('unshare', ['--net', '--', ...node], { encoding: 'utf8' }).trim();
}

const DOCKER = 'iptables -N DOCKER-USER; iptables -A FORWARD -j DOCKER-USER; iptables -P FORWARD DROP;';

test("the traffic of sandboxes is accepted in Docker's firewall, and the rules can be removed", { skip }, () => {
  const shown = onHost(`run(${JSON.stringify(`mount --make-rprivate / || true; ${DOCKER}`)});
    const list = () => run('iptables -S DOCKER-USER | grep c[le]x || true');
    await addDockerUserRules(LINKS); await addDockerUserRules(LINKS); console.log(list());
    await removeDockerUserRules(LINKS); await removeDockerUserRules(LINKS); console.log('after:' + list());`);
  const rules = shown.split('\n').filter(Boolean);
  assert.equal(rules.pop(), 'after:');
  assert.equal(rules.length, 6);
  const hasRule = (pattern: RegExp) =>
    assert.ok(
      rules.some((rule) => pattern.test(rule)),
      `${pattern}`,
    );
  hasRule(/-i clx\+ -j ACCEPT/);
  hasRule(/-o clx\+ .*RELATED,ESTABLISHED.*-j ACCEPT/);
  for (const protocol of ['udp', 'icmp']) {
    hasRule(new RegExp(`-i cex\\+ -p ${protocol} -j ACCEPT`));
    hasRule(new RegExp(`-o cex\\+ -p ${protocol} .*RELATED,ESTABLISHED.*-j ACCEPT`));
  }
});

test('a host without Docker is not changed', { skip }, () => {
  assert.equal(onHost(`await addDockerUserRules(LINKS); console.log(run('nft list tables'));`), '');
});
