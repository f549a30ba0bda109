import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { SandboxId } from '@cloche/contract';
import { TerminalProcess } from '@cloche/testkit/terminal-process';
import { SandboxCommands } from '../support/commands.ts';
import { sharedService, type TestService } from '../support/service.ts';

const LARGE_BYTES = 150_000_000;
/** Timeout for large amounts of data, long enough for a busy machine. */
const AMPLE_MS = 60_000;
const CLEAR_LINE = '\r\u001b[2K';

let service: TestService;
let sandboxId: SandboxId;
let folder: string;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-command-line-'));
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service?.close();
});

const here = (name: string) => join(folder, name);

/** Resolves with everything that a terminal showed of `cloche …`, up to the exit code. */
async function shown(
  args: string[],
  use?: (terminal: TerminalProcess) => Promise<void>,
  columns = 100,
): Promise<string> {
  // Ctrl-C reaches the surrounding shell as well.
  const script = 'trap : INT; node_modules/.bin/cloche "$@"; echo "ended with $?"';
  const env = { ...process.env, CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey };
  const terminal = new TerminalProcess(['sh', '-c', script, 'sh', ...args], { rows: 24, cols: columns, env });
  try {
    await use?.(terminal);
    await terminal.shows(/ended with \d+\r\n$/, AMPLE_MS);
    return terminal.text;
  } finally {
    await terminal.close();
  }
}

/** Returns the text that is left on the screen, without lines that were overwritten. */
const left = (text: string) =>
  stripVTControlCharacters(
    text
      .split('\n')
      .map((line) => line.split(CLEAR_LINE).at(-1))
      .join('\n'),
  );

/** Returns the indented value that a terminal shows before the exit code. */
const jsonIn = (text: string) => JSON.parse(text.slice(0, text.lastIndexOf('}') + 1));

describe('cloche cp on a terminal', () => {
  const BAR = /^file {2}[█░]{24} +\d+% {2}[\d.]+ [KM]iB of 143\.1 MiB {2}[\d.]+ [KMG]iB\/s {2}.+ left$/;

  it('cloche cp on a terminal shows how far it is, in one line that is gone at the end', async () => {
    writeFileSync(here('file'), '');
    truncateSync(here('file'), LARGE_BYTES);
    const up = await shown(['cp', here('file'), `${sandboxId}:there/`]);
    const down = await shown(['cp', `${sandboxId}:there/file`, here('back')]);
    for (const text of [up, down]) {
      const bars = text.split(CLEAR_LINE).filter((line) => line.includes('%'));
      assert.ok(bars.length > 0 && bars.every((line) => BAR.test(line)), JSON.stringify(bars));
    }
    assert.equal(left(up), `143.1 MiB to ${sandboxId}:there/file\r\nended with 0\r\n`);
    assert.equal(left(down), `143.1 MiB to ${here('back')}\r\nended with 0\r\n`);
    assert.equal(statSync(here('back')).size, LARGE_BYTES);
    const json = left(await shown(['cp', '--json', `${sandboxId}:there/file`, here('back')]));
    assert.deepEqual(jsonIn(json), { to: here('back'), bytes: LARGE_BYTES });
  });

  it('cloche cp on a terminal leaves nothing when it is interrupted', async () => {
    const before = readdirSync(folder);
    const text = await shown(['cp', `${sandboxId}:/dev/../workspace/there/file`, here('never')], async (terminal) => {
      await terminal.shows('%');
      terminal.type('\x03');
    });
    assert.match(left(text), /Interrupted\.\r\nended with 130\r\n$/);
    assert.deepEqual(readdirSync(folder), before);
  });
});

describe('cloche exec on a terminal', () => {
  it('cloche exec on a terminal prints as the command prints, takes what is typed, and ends with its exit code', async () => {
    const script = 'read line; echo "got $line"; echo wrong >&2; exit 4';
    const text = await shown(['exec', '-i', sandboxId, script], async (terminal) => {
      terminal.type('a line\r');
    });
    assert.match(text, /a line\r\n(got a line\r\nwrong|wrong\r\ngot a line)\r\nended with 4\r\n$/);
    const json = await shown(['exec', '--json', sandboxId, 'echo one; exit 5']);
    const events = json.trim().split('\r\n').slice(0, -1);
    assert.deepEqual(
      events.map((line) => JSON.parse(line)).map(({ type, data }) => [type, data.data ?? data.exitCode]),
      [
        ['log', 'one\n'],
        ['exit', 5],
      ],
    );
  });

  it('cloche exec on a terminal ends its command with Ctrl-C', async () => {
    const text = await shown(['exec', sandboxId, 'echo begun; exec sleep 309'], async (terminal) => {
      await terminal.shows('begun');
      terminal.type('\x03');
    });
    assert.match(text, /Interrupted.*ended with 130/s);
    const found = await new SandboxCommands(service, sandboxId).run('pgrep -fx "sleep 309"');
    assert.equal(found.exitCode, 1);
  });
});

describe('cloche logs -f on a terminal', () => {
  it('cloche logs -f on a terminal prints what there is and what comes, and ends with the exit code', async () => {
    const commands = new SandboxCommands(service, sandboxId);
    const { id } = await commands.start('echo before; while [ ! -e go ]; do sleep 0.05; done; echo after; exit 6');
    const text = await shown(['logs', '-f', sandboxId, id], async (terminal) => {
      await terminal.shows('before\r\n');
      await commands.run('touch go');
    });
    assert.equal(text, 'before\r\nafter\r\nended with 6\r\n');
    const json = await shown(['logs', '--json', sandboxId, id]);
    assert.deepEqual(
      json.match(/"seq":\d+,"stream":"stdout","data":"(before|after)/g),
      ['before', 'after'].map((word, index) => `"seq":${index + 1},"stream":"stdout","data":"${word}`),
    );
    const gone = await shown(['logs', sandboxId, 'cmd_none']);
    const sentence = 'error: There is no command "cmd_none" that this key can see.';
    assert.equal(left(gone), `${sentence} \`cloche command list SANDBOX\` shows what there is.\r\nended with 1\r\n`);
  });
});

describe('cloche preview and cloche artifact download on a terminal', () => {
  it('cloche preview and cloche artifact download on a terminal print a link and save a file, and say the rest beside it', async () => {
    const preview = left(await shown(['preview', sandboxId, '8000', '--ttl', '10m']));
    assert.match(preview, /^http:\/\/prv-\w+\.localhost:\d+\/\?cloche_token=[\w-]+\r\nprivate, prv_\w+, ends in /);
    const opened = jsonIn(left(await shown(['preview', '--json', sandboxId, '8000'])));
    assert.deepEqual([opened.port, opened.visibility], [8000, 'private']);

    await service.api.run(sandboxId, 'open("/workspace/kept.txt", "w").write("kept")');
    const { body } = await service.api.post(`/v1/sandboxes/${sandboxId}/artifacts`, { path: 'kept.txt' });
    const got = await shown(['artifact', 'download', body.artifact.id, here('kept.txt')]);
    assert.equal(left(got), `4 B to ${here('kept.txt')}\r\nended with 0\r\n`);
    assert.equal(readFileSync(here('kept.txt'), 'utf8'), 'kept');
    const json = await shown(['artifact', 'download', '--json', body.artifact.id, here('kept.txt')]);
    assert.match(left(json), /^\{\r\n {2}"to": .*\r\n\}\r\nended with 0\r\n$/s);
    assert.deepEqual(jsonIn(left(json)), { to: here('kept.txt'), bytes: 4 });
  });
});
