import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { openCloche } from '../support/cloche-terminal.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service?.close());

const openTop = () => openCloche(service, ['top'], { rows: 24, cols: 80 });

it('cloche top shows live sandboxes anew every two seconds, within the width, and leaves the terminal as it was', async () => {
  const terminal = openTop();
  try {
    await terminal.shows(sandboxId);
    const frames = () => terminal.text.split('\u001b[H').length - 1;
    const other = (await service.api.readySandbox()).id;
    await terminal.shows(other);
    assert.ok(frames() >= 2, `${frames()} frames`);
    const shown = terminal.text.split('\u001b[H').flatMap((text) => stripVTControlCharacters(text).split(/\r+\n/));
    for (const line of shown) assert.ok(line.length <= 80, line);
    terminal.type('q');
    // The screen of its own is left, the cursor shown, and lines are read as before.
    await terminal.shows('\u001b[?25h\u001b[?1049lended with 0\r\n');
    await terminal.shows(/ icanon .* echo /s);
  } finally {
    await terminal.close();
  }
});

it('cloche top ends with Ctrl-C', async () => {
  const terminal = openTop();
  try {
    await terminal.shows(sandboxId);
    terminal.type('\x03');
    await terminal.shows(/ended with 0\r\n.* icanon .* echo /s);
  } finally {
    await terminal.close();
  }
});
