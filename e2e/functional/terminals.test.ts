import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { Cloche, type Pty } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { sameWithEachRuntime } from '../support/claims.ts';
import { lentService } from '../support/lent-service.ts';
import { type LentService, testService } from '../support/service.ts';

let service: LentService;
let sandboxId: `sbx_${string}`;
before(async () => {
  service = await lentService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service.close());

/** Terminal with all of its output. */
class Screen {
  text = '';
  pty!: Pty;

  static async open(
    options: { id?: string; cols?: number; rows?: number; user?: 'user' | 'root' } = {},
    of = { service, sandboxId },
  ): Promise<Screen> {
    const screen = new Screen();
    const cloche = new Cloche({ url: of.service.url, apiKey: of.service.apiKey });
    const { pty } = await cloche.sandboxes.get(of.sandboxId);
    const decoder = new TextDecoder();
    const onData = (data: Uint8Array) => {
      screen.text += decoder.decode(data, { stream: true });
    };
    screen.pty = await pty.open({ ...options, onData });
    return screen;
  }

  type(line: string): void {
    this.pty.write(`${line}\n`);
  }

  async shows(text: string | RegExp): Promise<void> {
    await eventually(() => (typeof text === 'string' ? this.text.includes(text) : text.test(this.text)));
  }
}

describe('a terminal', () => {
  it('a terminal is a login shell of the user, with a terminal of the requested size', async () => {
    const screen = await Screen.open({ cols: 123, rows: 45 });
    screen.type('tty; stty size; id -un; shopt -q login_shell && echo "login in $PWD"; echo $TERM');
    await screen.shows('xterm-256color\r\n');
    assert.match(screen.text, /\/dev\/pts\/\d+\r\n45 123\r\nuser\r\nlogin in \/workspace\r\n/);
    // The prompt tells sandboxes apart.
    await screen.shows(`user@${sandboxId.slice(4, 8)}`);
    screen.type('exit 7');
    assert.equal(await screen.pty.exited, 7);
  });

  it('a terminal has the default size for 0, and the largest one for more, when it opens and when it is resized', async () => {
    const sizes = [
      [{ cols: 0, rows: 0 }, '24 80'],
      [{ cols: 5000, rows: 0 }, '24 1000'],
      [{ cols: 120, rows: 65_535 }, '1000 120'],
    ] as const;
    for (const [size, is] of sizes) {
      const screen = await Screen.open(size);
      screen.type('stty size; read -r; stty size');
      await screen.shows(`${is}\r\n`);
      screen.pty.resize(33, 44);
      screen.pty.resize(size.cols, size.rows);
      for (const wrong of [-1, 1.5, 65_536]) screen.pty.resize(wrong, 24);
      screen.type('');
      await screen.shows(new RegExp(`${is}\r\n[^]*${is}\r\n`));
      screen.type('exit');
      await screen.pty.exited;
    }
  });

  it('a terminal is resized, and interrupted by what is typed', async () => {
    const screen = await Screen.open();
    screen.pty.resize(100, 50);
    // Printed by the command to interrupt: a moment before, Ctrl-C would interrupt the shell.
    screen.type('stty size; sh -c "echo begun; exec sleep 300"; echo "ended with $?"');
    await screen.shows('\nbegun\r\n');
    assert.match(screen.text, /50 100/);
    screen.pty.write('\x03');
    screen.type('echo after; exit');
    await screen.shows('after\r\n');
    await screen.pty.exited;
  });

  it('a terminal shows its screen to each client that joins it, and accepts input from all', async () => {
    const first = await Screen.open({ user: 'root' });
    first.type('echo "it is $(id -un)"');
    await first.shows('it is root');
    const second = await Screen.open({ id: first.pty.id });
    await second.shows('it is root');
    second.type('echo "from the $((1 + 1))nd"');
    await first.shows('from the 2nd');
    await second.shows('from the 2nd');
    first.pty.close();
    second.type('exit 3');
    assert.equal(await second.pty.exited, 3);
  });

  it('a terminal has an audit event for each client that opens or joins it', async () => {
    const { projectId } = (await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox;
    const events = async () =>
      (await service.api.get(`/v1/audit-events?action=terminal.opened&target=${sandboxId}`)).body.data;
    const earlier = (await events()).length;
    const first = await Screen.open();
    const second = await Screen.open({ id: first.pty.id });
    const opened = (await events()).slice(earlier);
    assert.deepEqual(
      opened.map((event: { outcome: string; projectId: string }) => [event.outcome, event.projectId]),
      [
        ['allowed', projectId],
        ['allowed', projectId],
      ],
    );
    second.type('exit');
    await first.pty.exited;
  });

  it('a terminal outlives a broken connection, and a restart of the server', async () => {
    const before = await Screen.open();
    before.type('kept=42; echo "set"');
    await before.shows(/set\r\n.*\$/s);
    await service.kill('server');
    assert.equal(await before.pty.exited, undefined);
    await service.restart('server');
    const again = await Screen.open({ id: before.pty.id });
    again.type('echo "kept is $kept"; exit');
    await again.shows('kept is 42');
    await again.pty.exited;
  });

  it('a terminal makes its sandbox running while a client watches', async () => {
    const screen = await Screen.open();
    const status = async () => (await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox.status;
    // Of several servers, each learns a moment later what runs through the others.
    await eventually(async () => (await status()) === 'running');
    screen.type('exit');
    await screen.pty.exited;
    await eventually(async () => (await status()) === 'idle');
  });
});

// Concurrent, as the first test mostly waits.
describe('a terminal, beside others', { concurrency: 2 }, () => {
  const idle = sameWithEachRuntime('a clock of the agent; a terminal that ends is tested with each');
  it('a terminal without a client ends, with all that its shell started', idle, async () => {
    // A service of its own: with this idle timeout, no terminal would survive a slow restart of the server.
    const service = await testService({ CLOCHE_TERMINAL_IDLE_MS: '5000' });
    try {
      const own = { service, sandboxId: (await service.api.readySandbox()).id };
      const screen = await Screen.open({}, own);
      screen.type('setsid sleep 308 & until pgrep -fx "sleep 308"; do sleep 0.1; done; echo "pid is $!"');
      await screen.shows(/pid is \d+\r\n/);
      const { id } = screen.pty;
      screen.pty.close();
      const command = 'pgrep -fx "sleep 308"';
      const look = () => service.api.post(`/v1/sandboxes/${own.sandboxId}/commands`, { command });
      assert.equal((await look()).body.command.exitCode, 0);
      await eventually(async () => (await look()).body.command.exitCode === 1, { within: 30_000 });
      await assert.rejects(Screen.open({ id }, own), { code: 'not_found' });
    } finally {
      await service.close();
    }
  });

  it('a terminal beside others reaches every client completely, also with a flood of output', async () => {
    const screen = await Screen.open();
    screen.type('head -c 20000000 /dev/zero | tr "\\0" x; echo; echo "done $((6 * 7))"');
    await eventually(() => screen.text.endsWith('$ ') && screen.text.includes('done 42'));
    assert.equal(
      screen.text.match(/x{80}/g)?.length !== undefined && screen.text.split('x').length - 1 >= 20_000_000,
      true,
    );
    screen.type('exit');
    await screen.pty.exited;
  });

  it('a terminal beside others shows the same to the largest number of clients, refuses the next one, and continues when one leaves', async () => {
    const first = await Screen.open();
    const others = await Promise.all(Array.from({ length: 15 }, () => Screen.open({ id: first.pty.id })));
    await assert.rejects(Screen.open({ id: first.pty.id }), /maximum number of clients/);
    others[7]?.type('echo "for $((4 * 4))"');
    for (const screen of [first, ...others]) await screen.shows('for 16');
    first.pty.close();
    await eventually(() =>
      Screen.open({ id: first.pty.id }).then(
        (last) => others.push(last) > 0,
        () => false,
      ),
    );
    others[0]?.type('echo "still $((2 + 2))"; exit 9');
    for (const screen of others) {
      await screen.shows('still 4');
      assert.equal(await screen.pty.exited, 9);
    }
  });

  it('a terminal beside others whose program reads nothing accepts a bounded amount, and stays for clients that reconnect', async () => {
    const screen = await Screen.open();
    screen.type('stty raw -echo; echo "hears nothing"; sleep 310; stty sane; echo "hears again"');
    await screen.shows(/\rhears nothing/);
    let ended = false;
    void screen.pty.exited.then(() => {
      ended = true;
    });
    // No faster than the service can pass it on.
    const piece = new Uint8Array(64 * 1024).fill(0x20);
    for (let sent = 0; !ended; sent += piece.length) {
      assert.ok(sent < 100 * 2 ** 20, 'all of it was taken');
      screen.pty.write(piece);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const again = await Screen.open({ id: screen.pty.id });
    await service.api.post(`/v1/sandboxes/${sandboxId}/commands`, { command: 'pkill -fx "sleep 310"' });
    await again.shows('hears again\r\n');
    again.pty.close();
  });
});

describe('a request for a terminal', () => {
  const path = () => `/v1/sandboxes/${sandboxId}/pty`;

  it('a request for a terminal that is no WebSocket is refused with that reason', async () => {
    const answer = await service.api.get(path());
    assert.deepEqual([answer.status, answer.body.error.details.issues[0].path], [400, 'headers.upgrade']);
  });

  it('a request for a terminal is refused as JSON: without a key, with a wrong size, for what is not there', async () => {
    const refused = async (target: string, authorization = `Bearer ${service.apiKey}`) => {
      const headers = {
        authorization,
        connection: 'upgrade',
        upgrade: 'websocket',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        'sec-websocket-version': '13',
      };
      const sent = request(new URL(target, service.url), { headers });
      sent.end();
      const [response] = await once(sent, 'response');
      let text = '';
      for await (const chunk of response) text += chunk;
      return [response.statusCode, JSON.parse(text).error.code];
    };
    assert.deepEqual(await refused(path(), 'Bearer nothing'), [401, 'unauthorized']);
    assert.deepEqual(await refused(`${path()}?cols=-1`), [400, 'invalid_request']);
    assert.deepEqual(await refused(`${path()}?ptyId=pty_none`), [404, 'not_found']);
    assert.deepEqual(await refused('/v1/sandboxes/sbx_none/pty'), [404, 'not_found']);
    assert.deepEqual(await refused('/nowhere'), [404, 'not_found']);
  });
});
