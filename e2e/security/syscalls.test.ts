import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isolation } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';
import { asRoot, asUser, attempts, type Outcomes, onHost, outcomesOf } from './support/attackers.ts';

/** What a kernel says that was built without the call. */
const UNKNOWN_HERE = /^(ENOSYS|EAFNOSUPPORT|killed by SIGSEGV)$/;

/** The filter's own answers: no argument was looked at. */
function isRefused([name, outcome]: [string, string]): boolean {
  // Libraries go on with `clone`, whose flags the filter sees, when this one does not exist.
  if (name === 'clone3') return outcome === 'ENOSYS';
  // A kernel of its own has no such interface at all.
  if (name === 'a call of the 32-bit interface' && outcome === 'ENOSYS') return isolation.kernel === 'own';
  return outcome === 'EPERM' || outcome === 'killed by SIGSYS';
}

const script = attempts('syscalls');

describe('system calls that attack kernels', { skip: process.arch !== 'x64' && 'numbers are those of x64' }, () => {
  let service: TestService;
  let sandboxId: string;
  before(async () => {
    service = await sharedService();
    sandboxId = (await service.api.readySandbox()).id;
  });
  after(() => service?.close());

  it('are done, or looked at, outside of a sandbox', async (t) => {
    const outcomes = Object.entries(outcomesOf(await onHost('root', script)));
    const unknown = outcomes.filter(([name, outcome]) => name !== 'clone3' && UNKNOWN_HERE.test(outcome));
    if (unknown.length > 0) t.diagnostic(`this kernel has none of: ${unknown.map(([name]) => name).join(', ')}`);
    assert.deepEqual(
      outcomes.filter(([, outcome]) => outcome === 'EPERM'),
      [],
    );
    assert.ok(outcomes.length - unknown.length > 40);
  });

  it('are open even to nobody in particular in part, outside of a sandbox', async () => {
    const outcomes = outcomesOf(await onHost('user', script));
    for (const name of ['unshare a user namespace', 'keyctl', 'add_key']) assert.equal(outcomes[name], 'done', name);
  });

  it("are refused to a client's code, each of them", async () => {
    assert.deepEqual(unrefused(outcomesOf(await asUser(service, sandboxId, script))), []);
  });

  it('are refused to the root of a sandbox, each of them', async () => {
    assert.deepEqual(unrefused(outcomesOf(await asRoot(service, sandboxId, script))), []);
  });
});

function unrefused(outcomes: Outcomes): [string, string][] {
  assert.ok(Object.keys(outcomes).length > 50);
  return Object.entries(outcomes).filter((entry) => !isRefused(entry));
}
