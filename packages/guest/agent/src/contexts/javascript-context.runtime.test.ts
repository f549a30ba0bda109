import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { StartedAgent } from '../../testing/started-agent.ts';

for (const language of ['javascript', 'typescript']) {
  describe(`a ${language} context of the agent`, () => {
    let agent: StartedAgent;
    let context: string;
    before(async () => {
      agent = await StartedAgent.start();
      context = await agent.open(language);
    });
    after(() => agent[Symbol.asyncDispose]());

    test(`a ${language} context of the agent runs cells that share their variables`, async () => {
      const { stdout, done } = await agent.run(context, 'let x = 20; console.log("printed")');
      assert.equal(stdout, 'printed\n');
      assert.equal(done.error, undefined);
      assert.equal((await agent.run(context, 'x + 1')).outputs[0]?.value, '21');
    });

    test(`a ${language} context of the agent stops an endless loop and keeps its variables`, async () => {
      await agent.run(context, 'let kept = 42');
      const { done } = await agent.run(context, 'while (true) {}', { timeoutMs: 200 });
      assert.equal(done.error?.name, 'TimeoutError');
      const next = await agent.run(context, 'kept');
      assert.equal(next.outputs[0]?.value, '42');
      assert.equal(next.done.stateLost, undefined);
    });

    test(`a ${language} context of the agent finds the packages that npm has installed for the user`, async () => {
      const folder = join(agent.folder, 'home/.local/lib/node_modules/installed');
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'index.js'), 'exports.kind = "global"');
      const found = await agent.run(context, 'import { kind } from "installed"; kind + require("installed").kind');
      assert.equal(found.outputs[0]?.value, "'globalglobal'", JSON.stringify(found.done));
    });

    test(`a ${language} context of the agent is replaced when its process ends`, async () => {
      const { done } = await agent.run(context, 'process.kill(process.pid, "SIGKILL"); await new Promise(() => {})');
      assert.equal(done.error?.name, 'KernelDiedError');
      assert.equal((await agent.run(context, '1')).done.stateLost, true);
    });
  });
}
