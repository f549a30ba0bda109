import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { skipUnless } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';

const PIDS = 64;

// gVisor counts processes by user, and a kernel that cannot create one ends.
describe('a sandbox that has no process left', skipUnless('kernel', 'shared'), () => {
  let service: TestService;
  let id: string;
  let holder: string;
  let dying: string;
  before(async () => {
    service = await sharedService();
    ({ id } = await service.api.readySandbox({ resources: { pids: PIDS } }));
    [holder, dying] = [await open('python'), await open('python')] as [string, string];
    const { stdout } = await service.api.run(id, HOLD, { contextId: holder });
    assert.match(stdout, /Resource temporarily unavailable/);
  });
  after(() => service?.close());

  const HOLD = `
import subprocess
held = []
try:
    while True: held.append(subprocess.Popen(["sleep", "600"]))
except OSError as error: print(error)`;
  const contexts = () => `/v1/sandboxes/${id}/code/contexts`;
  async function open(language: string): Promise<string> {
    return (await service.api.post(contexts(), { language })).body.context.id;
  }

  for (const language of ['python', 'javascript', 'typescript']) {
    it(`opens no context of ${language}, and says that the processes are used up`, async () => {
      const { status, body } = await service.api.post(contexts(), { language });
      assert.deepEqual([status, body.error?.code], [429, 'quota_exceeded']);
      assert.deepEqual(body.error.details, { quota: 'resources.pids', limit: PIDS, used: PIDS });
      assert.match(body.error.message, /resources\.pids is 64.* end some/);
    });
  }

  it('starts no command, and says why', async () => {
    const { body } = await service.api.post(`/v1/sandboxes/${id}/commands`, { command: ['true'] });
    assert.deepEqual([body.command.status, body.command.exitCode], ['failed', 126]);
    assert.match(body.command.stderr, /^true: .*resources\.pids.*\n$/);
  });

  it('gives a context whose kernel has died no other one, by a named error without a traceback of the service', async () => {
    // The kernel that ends frees room for one process, which the other context takes.
    await service.api.run(id, 'import os; os._exit(1)', { contextId: dying });
    await service.api.run(id, 'held.append(subprocess.Popen(["sleep", "600"]))', { contextId: holder });
    const { error, stderr } = await service.api.run(id, '1 + 1', { contextId: dying });
    assert.deepEqual([error?.name, stderr], ['ProcessLimitError', '']);
    assert.match(error?.message ?? '', /resources\.pids/);
  });

  it('keeps the context that holds the processes, with its variables', async () => {
    const { stdout } = await service.api.run(id, 'print(all(p.poll() is None for p in held))', { contextId: holder });
    assert.equal(stdout, 'True\n');
    await service.api.run(id, 'for p in held: p.kill(); p.wait()', { contextId: holder });
    assert.equal((await service.api.run(id, 'print(1)', { contextId: dying })).stdout, '1\n');
  });
});
