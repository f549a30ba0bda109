import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { test } from 'node:test';

const hasIptables = spawnSync('iptables', ['--version']).status === 0;
const skip = hasIptables ? false : 'there is no iptables here, and so no Docker';

/** In a network namespace of its own, which stands for a host with Docker. */
function onHost(script: string): string {
  const { href } = new URL('./docker-user-chain.ts', import.meta.url);
  const module = `import { admitThroughDocker, withdrawFromDocker } from ${JSON.stringify(href)};
    import { execFileSync } from 'node:child_process';
    const run = (line) => execFileSync('sh', ['-euc', line], { encoding: 'utf8', stdio: 'pipe' });`;
  const node = [process.execPath, '--input-type=module', '-e', module + script];
  return execFileSync('unshare', ['--net', '--', ...node], { encoding: 'utf8' }).trim();
}

const DOCKER = 'iptables -N DOCKER-USER; iptables -A FORWARD -j DOCKER-USER; iptables -P FORWARD DROP;';

test('what sandboxes send is let through a firewall of Docker’s, and taken back', { skip }, () => {
  const shown = onHost(`run(${JSON.stringify(`mount --make-rprivate / || true; ${DOCKER}`)});
    const list = () => run('iptables -S DOCKER-USER | grep clx || true');
    await admitThroughDocker('clx'); await admitThroughDocker('clx'); console.log(list());
    await withdrawFromDocker('clx'); await withdrawFromDocker('clx'); console.log('after:' + list());`);
  const [first, second, last] = shown.split('\n').filter(Boolean);
  assert.match(`${first}\n${second}`, /-o clx\+ .*RELATED,ESTABLISHED.*-j ACCEPT/);
  assert.match(`${first}\n${second}`, /-i clx\+ -j ACCEPT/);
  assert.equal(last, 'after:');
});

test('a host without Docker is left as it is', { skip }, () => {
  assert.equal(onHost(`await admitThroughDocker('clx'); console.log(run('nft list tables'));`), '');
});
