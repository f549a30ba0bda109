/** Each command that prints what programs of a sandbox wrote: it reaches a terminal as text and colours, a pipe as it is. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  eventStream,
  frame,
  json,
  type ScriptedServer,
  sampleCommand,
  sampleRun,
  sampleSandbox,
  sampleWorkspaceRun,
  startScriptedServer,
} from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const ESC = '\u001b';
/** Sets the title and the clipboard, asks for the position of the cursor, and clears the screen, between colours. */
const OUTPUT = `${ESC}[32mgreen${ESC}]0;title\u0007${ESC}]52;c;YQ==${ESC}\\${ESC}[6n${ESC}[2J${ESC}[0m end\n`;
const ON_TERMINAL = `${ESC}[32mgreen${ESC}[0m end\n`;
const at = '2026-01-01T00:00:00.000Z';
const error = { name: 'Error', message: OUTPUT, traceback: [OUTPUT] };
const entry = { seq: 1, stream: 'stdout', data: OUTPUT, at, step: 1 };
const events = [{ seq: 1, at, type: 'stdout', data: OUTPUT }];
const finished = { status: 'succeeded', exitCode: 0 } as const;
const build = { id: 'bld_1', templateId: 'tpl_1', templateSlug: 'own', status: 'succeeded', finishedAt: at, steps: [] };
const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const bytes = (type: string) => ({ 'content-type': type, 'content-length': String(Buffer.byteLength(OUTPUT)) });

let server: ScriptedServer;
let folder: string;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-cli-'));
  writeFileSync(join(folder, 'template.json'), '{"steps":[]}');
  server = await startScriptedServer(({ method, path: whole }) => {
    const path = whole.replace(/\?.*/, '');
    const page = json(200, { data: [entry], nextSeq: 1, hasMore: false });
    if (path.endsWith('/content')) return (response) => void response.writeHead(200, bytes('text/plain')).end(OUTPUT);
    if (path.endsWith('/code/runs/stream')) {
      const text = { kind: 'inline', format: 'text', value: OUTPUT, mimeType: '-', role: 'result', bundle: 0 };
      const complete = frame('complete', sampleRun({ error }));
      return eventStream([frame('stdout', OUTPUT), frame('stderr', OUTPUT), frame('output', text), complete]);
    }
    if (path.includes('/workspace-runs')) {
      if (path.endsWith('/stream'))
        return eventStream([...events.map(data), data({ type: 'exit', data: sampleWorkspaceRun(finished) })]);
      if (path.endsWith('/events')) return json(200, { data: events, nextSeq: 1, hasMore: false });
      return json(method === 'POST' ? 201 : 200, { workspaceRun: sampleWorkspaceRun(finished) });
    }
    if (path.includes('/builds')) {
      if (path.endsWith('/stream'))
        return eventStream([data({ type: 'log', data: entry }), data({ type: 'complete', data: build })]);
      return path.endsWith('/logs') ? page : json(method === 'POST' ? 201 : 200, { build });
    }
    if (path.includes('/commands')) {
      if (path.endsWith('/stream'))
        return eventStream([frame('log', entry), frame('exit', sampleCommand({ status: 'exited', exitCode: 0 }))]);
      return path.endsWith('/logs') ? page : json(200, { command: sampleCommand() });
    }
    if (path.includes('/artifacts')) return json(200, { artifact: { id: 'art_1', name: 'a', sizeBytes: 1 } });
    if (path.includes('/files')) return json(200, { file: { path: '/x', type: 'file' } });
    return json(200, { sandbox: sampleSandbox({ status: 'ready' }) });
  });
});
after(async () => {
  rmSync(folder, { recursive: true });
  await server[Symbol.asyncDispose]();
});

const cloche = async (line: string, isTerminal: boolean) => {
  const args = line.split(' ').map((word) => word.replace('FOLDER', folder));
  const { stdout, stderr } = await runInProcess(args, { url: server.url, isTerminal, hasColors: true });
  return stdout + stderr;
};

/** Command lines, with how often each prints the output. */
const LINES: Readonly<Record<string, number>> = {
  'run --sandbox sbx_1 -c 1': 5,
  'exec sbx_1 ls': 1,
  'logs sbx_1 cmd_1': 1,
  'logs -f sbx_1 cmd_1': 1,
  'job run --dir FOLDER ls': 1,
  'job logs wrun_1': 1,
  'job logs -f wrun_1': 1,
  'template logs own bld_1': 1,
  'template logs own bld_1 -f': 1,
};
/** Command lines that print a file as it is in a pipe, or that print beside their output. */
const ON_TERMINALS_ALONE = {
  'template build --slug own FOLDER': 1,
};

describe('output of programs', { concurrency: true }, () => {
  for (const [line, times] of Object.entries({ ...LINES, ...ON_TERMINALS_ALONE }))
    it(`output of programs reaches a terminal from \`cloche ${line}\` as text and colours`, async () => {
      const printed = await cloche(line, true);
      assert.equal(printed.split(ON_TERMINAL).length - 1, times, JSON.stringify(printed));
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
      assert.doesNotMatch(printed, /\u001b(?!\[[\d;]*m|\[2K)|\u0007/);
    });

  for (const [line, times] of Object.entries(LINES)) {
    it(`output of programs reaches a pipe from \`cloche ${line}\` as it is`, async () => {
      assert.equal((await cloche(line, false)).split(OUTPUT).length - 1, times);
    });

    it(`output of programs reaches a terminal from \`cloche ${line}\` as it is with --raw`, async () => {
      const [command = '', ...rest] = line.split(/ (?=--|sbx|-f|wrun|own)/);
      assert.equal((await cloche(`${command} --raw ${rest.join(' ')}`, true)).split(OUTPUT).length - 1, times);
    });
  }

  for (const line of ['cp sbx_1:x -', 'artifact download art_1 -'])
    it(`output of programs of a file reaches a terminal from \`cloche ${line}\` as text and colours`, async () => {
      assert.equal(await cloche(line, true), ON_TERMINAL);
    });
});
