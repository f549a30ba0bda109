import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { openCloche } from '../support/cloche-terminal.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service?.close());

const openShell = (...options: string[]) =>
  openCloche(service, ['shell', sandboxId, ...options], { rows: 31, cols: 91 });

describe('cloche shell', () => {
  it('cloche shell has the size of the terminal, now and when that changes, and leaves it as it was', async () => {
    const terminal = openShell();
    try {
      terminal.type('stty size; id -un; echo $TERM\r');
      await terminal.shows('31 91\r\nuser\r\nxterm-256color\r\n');
      terminal.resize(44, 133);
      // A signal announces the new size, and typed text may overtake it.
      terminal.type('until [ "$(stty size)" = "44 133" ]; do sleep 0.1; done; stty size\r');
      await terminal.shows('\r44 133\r\n');
      // Ctrl-C goes to the sandbox and ends nothing here.
      terminal.type('sh -c "echo begun; exec sleep 300"\r');
      await terminal.shows('\rbegun\r\n');
      terminal.type('\x03');
      terminal.type('echo "interrupted with $?"\r');
      await terminal.shows('\rinterrupted with 130\r\n');
      terminal.type('exit 7\r');
      await terminal.shows(/ended with 7\r\n.* icanon .* echo /s);
    } finally {
      await terminal.close();
    }
  });

  it('cloche shell shows what full-screen programs write as they write it', async () => {
    const terminal = openShell();
    try {
      terminal.type('stty -opost; printf "one\\ntwo"; stty opost; exit\r');
      await terminal.shows('one\ntwo');
    } finally {
      await terminal.close();
    }
  });

  it('cloche shell sleeps with its sandbox until a key or a resume wakes it, and leaves it asleep at Ctrl-C', async () => {
    const terminal = openShell();
    const move = (name: 'pause' | 'resume') => service.api.post(`/v1/sandboxes/${sandboxId}/${name}`, {});
    const isPaused = async () =>
      (await service.api.get(`/v1/sandboxes/${sandboxId}`)).body.sandbox.paused !== undefined;
    const asleep = async (time: number) => {
      await move('pause');
      await terminal.shows(new RegExp(`(?:Asleep: press a key.*){${time}}`, 's'));
      assert.ok(await isPaused());
    };
    try {
      terminal.type('kept=41; echo open\r');
      await terminal.shows('\ropen\r\n');
      await asleep(1);
      terminal.type('x');
      await eventually(async () => !(await isPaused()));
      await terminal.shows(/Asleep.*\ropen\r\n/s);
      terminal.type('echo $((kept + 1))\r');
      await terminal.shows('\r42\r\n');
      await asleep(2);
      await move('resume');
      await terminal.shows(/(?:Asleep.*){2}\r42\r\n/s);
      terminal.type('echo $((kept + 2))\r');
      await terminal.shows('\r43\r\n');
      await asleep(3);
      terminal.type('\x03');
      await terminal.shows(/was paused\. This wakes it: cloche shell \S+ --pty pty_\S+\r\n/);
      assert.ok(await isPaused());
    } finally {
      await terminal.close();
      await service.api.post(`/v1/sandboxes/${sandboxId}/resume`, {});
    }
  });

  it('cloche shell ends with its window, and what runs in the sandbox does not', async () => {
    const terminal = openShell();
    terminal.type('(sleep 2; echo done > /workspace/left) & echo started\r');
    await terminal.shows('\nstarted\r\n');
    await terminal.close();
    const answer = await service.api.run(
      sandboxId,
      '!until [ -s /workspace/left ]; do sleep 0.1; done; cat /workspace/left',
    );
    assert.equal(answer.stdout.trim(), 'done');
  });
});
