import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Command, CommandLogEntry } from '@cloche/contract';
import { Cloche } from '@cloche/sdk';
import { SandboxCommands } from '../support/commands.ts';
import { lentService } from '../support/lent-service.ts';
import { residentBytes } from '../support/process.ts';
import type { LentService } from '../support/service.ts';

let service: LentService;
let commands: SandboxCommands;
before(async () => {
  service = await lentService();
  commands = new SandboxCommands(service, (await service.api.readySandbox()).id);
});
after(() => service.close());

describe('the log of a command', () => {
  it('the log of a command has every line once and in order, read while it is written', async () => {
    const command = await commands.start('for n in {1..2000}; do echo $n; [ $((n % 100)) = 0 ] && sleep 0.01; done');
    const seen: CommandLogEntry[] = [];
    for (;;) {
      const { status } = await commands.get(command.id);
      const afterSeq = seen.at(-1)?.seq ?? 0;
      const page = (await service.api.get(`${commands.path}/${command.id}/logs?afterSeq=${afterSeq}&limit=3`)).body;
      seen.push(...page.data);
      if (status !== 'running' && page.data.length === 0) break;
    }
    assert.deepEqual(
      seen.map(({ seq }) => seq),
      seen.map((_, index) => index + 1),
    );
    const text = seen.map(({ data }) => data).join('');
    assert.equal(text, Array.from({ length: 2000 }, (_, n) => `${n + 1}\n`).join(''));
  });

  it('the log of a command is streamed, and a client that comes back goes on where it was', async () => {
    const command = await commands.start('for n in 1 2 3 4 5 6; do echo $n; sleep 0.1; done; exit 2');
    const first: string[] = [];
    let last = '';
    for await (const { id, event } of commands.follow(command.id)) {
      if (event.type === 'log') first.push(event.data.data);
      last = id ?? last;
      if (first.length === 3) break;
    }
    const rest: string[] = [];
    let exit: Command | undefined;
    for await (const { event } of commands.follow(command.id, last)) {
      if (event.type === 'log') rest.push(event.data.data);
      else exit = event.data;
    }
    assert.equal([...first, ...rest].join(''), '1\n2\n3\n4\n5\n6\n');
    assert.deepEqual([exit?.status, exit?.exitCode], ['exited', 2]);
    assert.equal(
      (await service.api.request('GET', `${commands.path}/${command.id}/stream`, { headers: { 'last-event-id': 'x' } }))
        .status,
      400,
    );
  });

  it('the log of a command is followed through a restart of the server, without loss or repetition', async () => {
    const { id } = await commands.start('for n in {1..60}; do echo $n; sleep 0.05; done; exit 3');
    const cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
    const command = await (await cloche.sandboxes.get(commands.sandboxId)).commands.get(id);
    let text = '';
    let restarted: Promise<void> | undefined;
    try {
      for await (const { data } of command.logs()) {
        text += data;
        restarted ??= service.kill('server').then(() => service.restart('server'));
      }
    } finally {
      await restarted;
    }
    assert.equal(text, Array.from({ length: 60 }, (_, n) => `${n + 1}\n`).join(''));
    assert.equal(command.info.exitCode, 3);
  });

  it('a log of a gigabyte keeps the latest lines, says what was dropped, and costs the server bounded memory', async () => {
    const before = residentBytes(service.pid('server'));
    const command = await commands.run('yes 0123456789abcde | head -c 1000000000; echo; echo the end', {
      timeoutMs: 120_000,
    });
    assert.equal(command.exitCode, 0);
    // The limit counts JSON, where each line of 16 bytes takes 17: its end is two characters.
    const kept = 1_000_000_009 - (command.truncated?.stdout ?? 0);
    assert.ok(Math.abs((kept * 17) / 16 - 8 * 1024 * 1024) < 64, `${kept} bytes are kept`);
    const entries = await commands.logs(command.id, 50);
    assert.equal(entries[0]?.stream, 'system');
    assert.match(entries[0]?.data ?? '', /bytes dropped/);
    assert.ok(entries.at(-1)?.data.endsWith('the end\n'));
    const bytes = entries.reduce((sum, { data }) => sum + data.length, 0);
    assert.ok(bytes > 14 << 20 && bytes < 18 << 20, `${bytes}`);
    const grown = residentBytes(service.pid('server')) - before;
    assert.ok(grown < 300 << 20, `${grown >> 20} MiB`);
  });

  it('the log of a command goes on when the disk of the sandbox is full', async () => {
    const { id } = await service.api.readySandbox({ resources: { diskMb: 64 } });
    const path = `/v1/sandboxes/${id}/commands`;
    const command = 'head -c 200M /dev/zero > fill; yes 0123456789abcde | head -c 5000000; echo; echo the end';
    const { body } = await service.api.post(path, { command });
    assert.match(body.command.stderr, /No space left/);
    assert.ok(body.command.stdout.endsWith('the end\n'));
    const page = (await service.api.get(`${path}/${body.command.id}/logs?limit=1000`)).body;
    assert.ok(page.data.at(-1).data.endsWith('the end\n'));
    await service.api.delete(`/v1/sandboxes/${id}`);
  });
});
