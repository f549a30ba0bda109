import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { TerminalProcess } from '@cloche/testkit/terminal-process';
import { openCloche } from '../support/cloche-terminal.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

/** Time for a sandbox and its kernel on a busy machine. */
const AMPLE_MS = 60_000;

async function session(args: readonly string[], use: (terminal: TerminalProcess) => Promise<void>): Promise<string> {
  const terminal = openCloche(service, ['repl', ...args], { rows: 24, cols: 100 });
  try {
    await use(terminal);
    await terminal.shows(/ended with \d+\r\n.* icanon .* echo /s, AMPLE_MS);
    return stripVTControlCharacters(terminal.text);
  } finally {
    await terminal.close();
  }
}

describe('cloche repl', () => {
  it('cloche repl runs each line with the variables of earlier ones, a block after an empty line, and ends its sandbox', async () => {
    const before = (await service.api.get('/v1/sandboxes')).body.data.length;
    const text = await session([], async (terminal) => {
      await terminal.shows('>>> ', AMPLE_MS);
      terminal.type('x = 20\r');
      terminal.type('for i in range(2):\r  x += i\r\r');
      terminal.type('x * 2\r');
      await terminal.shows('42\r\n', AMPLE_MS);
      terminal.type('1 / 0\r');
      await terminal.shows('ZeroDivisionError', AMPLE_MS);
      // Ctrl-C ends what runs, discards a line, and ends neither the session nor its variables.
      terminal.type('import time; print("begun"); time.sleep(300)\r');
      await terminal.shows(/\nbegun\r\n/, AMPLE_MS);
      terminal.type('\x03');
      await terminal.shows('Interrupted.', AMPLE_MS);
      terminal.type('print(1');
      await terminal.shows('print(1', AMPLE_MS);
      terminal.type('\x03');
      terminal.type('f"{x} is kept"\r');
      await terminal.shows("21 is kept'", AMPLE_MS);
      terminal.type('\x04');
    });
    assert.match(text, /ended with 0/);
    assert.equal((await service.api.get('/v1/sandboxes')).body.data.length, before);
  });

  it('cloche repl speaks TypeScript in a sandbox that a short id names, and leaves it alive', async () => {
    const { id } = await service.api.readySandbox();
    await session([id.slice(4, 16), '--language', 'typescript'], async (terminal) => {
      await terminal.shows('> ', AMPLE_MS);
      terminal.type('const f = (n: number) => {\rreturn n * 2;\r}\r');
      terminal.type('f(21)\r');
      await terminal.shows('42\r\n', AMPLE_MS);
      terminal.type('\x04');
    });
    assert.equal((await service.api.get(`/v1/sandboxes/${id}`)).body.sandbox.destroyedAt, undefined);
  });
});
