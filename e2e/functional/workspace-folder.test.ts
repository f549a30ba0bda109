import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cloche } from '@cloche/sdk';
import { sameWithEachServer } from '../support/claims.ts';
import { SandboxCommands } from '../support/commands.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

const asRoot = (commands: SandboxCommands, command: string) => commands.run(command, { user: 'root', cwd: '/' });

describe('the workspace of a sandbox', sameWithEachServer('the agent cares for the folder'), () => {
  for (const command of [
    'rm -r /workspace',
    'mv /workspace /moved',
    'rm -r /workspace; ln -s /gone/by /workspace; rm /workspace',
  ]) {
    it(`the workspace of a sandbox is there again for runs, commands and files after "${command}" of root`, async () => {
      const { id } = await service.api.readySandbox();
      const commands = new SandboxCommands(service, id);
      const removed = await asRoot(commands, command);
      assert.equal(removed.exitCode, 0, JSON.stringify(removed));
      const run = await service.api.run(id, 'import os; print(os.getcwd()); open("a", "w").close()');
      assert.deepEqual([run.stdout, run.error], ['/workspace\n', undefined]);
      assert.equal((await commands.run('pwd; ls; stat -c %U .')).stdout, '/workspace\na\nuser\n');
      await asRoot(commands, command);
      const { files } = await new Cloche({ url: service.url, apiKey: service.apiKey }).sandboxes.get(id);
      assert.equal((await files.write('b', 'text')).path, '/workspace/b');
    });
  }

  it('the workspace of a sandbox is named by errors that do not ask for another try if root has put a file in its place', async () => {
    const { id } = await service.api.readySandbox();
    const commands = new SandboxCommands(service, id);
    await asRoot(commands, 'rmdir /workspace; touch /workspace');
    const answers = [
      await service.api.post(`/v1/sandboxes/${id}/code/contexts`, { language: 'python' }),
      await service.api.post(`/v1/sandboxes/${id}/code/runs`, { language: 'python', code: '1' }),
      await commands.post({ command: 'pwd' }),
    ];
    for (const { status, headers, body } of answers) {
      assert.deepEqual(
        [status, body.error.code, headers.get('retry-after')],
        [409, 'conflict', null],
        JSON.stringify(body),
      );
      assert.match(body.error.message, /\/workspace is not a directory/);
    }
    await asRoot(commands, 'rm /workspace');
    assert.equal((await service.api.run(id, 'print(1)')).stdout, '1\n');
  });
});
