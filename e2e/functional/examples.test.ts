/** Each example of `--help` and of the READMEs about the command line runs as it is printed. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cloche, type Sandbox } from '@cloche/sdk';
import { TerminalProcess } from '@cloche/testkit/terminal-process';
import { blocksOf, ExampleFolder, examplesOfHelp } from '../support/examples.ts';
import { lentService } from '../support/lent-service.ts';
import type { LentService } from '../support/service.ts';

const AMPLE_MS = 120_000;
/** Time in which a command that has no end says that it is wrong. */
const BRIEF_MS = 4_000;

/** Examples that do not run here, each with the reason. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'cloche doctor': 'its exit code depends on the machine; packages/clients/cli/src/main.test.ts runs it',
  'cloche login --url https://cloche.example.com': 'no service is there; key.test.ts logs in to one',
  'cloche login --name prod --url https://cloche.example.com': 'no service is there; key.test.ts logs in to one',
  'claude mcp add cloche -- npx cloche mcp':
    'that host is not here; packages/clients/cli/src/commands/mcp.test.ts runs the command',
  'source <(cloche completion bash)': 'completion.test.ts completes with it',
  'source <(cloche completion zsh)': 'completion.test.ts completes with it',
  'cloche completion fish | source': 'completion.test.ts completes with it',
  'cloche migrate': 'servers use the database; migrate.test.ts migrates one',
  'CLOCHE_DATABASE_URL=postgres://… cloche migrate --json': 'no database is there; migrate.test.ts migrates one',
  'CLOCHE_DATABASE_URL=postgres://… cloche admin copy-database':
    'no database is there; copy-database.test.ts copies one',
  'cloche admin copy-database --to - < url-file': 'servers use the database; copy-database.test.ts copies one',
  'cloche template export cloche-templates.tar':
    'writes gigabytes of the curated templates; e2e/machines/without-registries.test.ts exports them',
  'cloche template import cloche-templates.tar   # curated templates, into the cache of this machine':
    'replaces the templates of this machine; e2e/machines/without-registries.test.ts imports them',
  'cloche template import cloche-templates.tar   # on the other machine':
    'replaces the templates of this machine; e2e/machines/without-registries.test.ts imports them',
  'cloche template refresh': 'builds the templates of this machine anew; template-work has tests of its own',
  'cloche template refresh python-node': 'builds a template of this machine anew; template-work has tests of its own',
  'cloche template revert python-node': 'changes the templates of this machine; template-work has tests of its own',
  'cloche template revert python-node tplv_…':
    'changes the templates of this machine; template-work has tests of its own',
  'cloche template import --slug science --language python --disk 8192 science.tar.gz':
    'needs an image with Python; image-languages.test.ts imports some',
};

/** Examples that go on until they are interrupted. */
const WITHOUT_END = [
  'cloche admin egress-log --follow --json | grep denied',
  "cloche events -f --types 'sandbox.*,artifact.created'",
  'cloche events -f --after 1041 --json',
  "cloche webhook listen http://localhost:3000/hook --events 'sandbox.*'",
];

/** Examples after which a sandbox may be paused. */
const PAUSES = /^cloche sandbox (pause|resume) /;

/** A text that the terminal must show, and the input that is typed then. */
type Step = readonly [shows: string, typed: string | ((text: string) => string)];

/** Examples for a terminal, with what is shown first and what is typed then to end them. */
const IN_A_TERMINAL: Readonly<Record<string, readonly Step[]>> = {
  'cloche shell': [
    ['Which one', (text) => `${new RegExp(`(\\d+) +${sandbox.id}`).exec(text)?.[1]}\r`],
    ['$', 'exit\r'],
  ],
  'cloche shell sbx_…': [['$', 'exit\r']],
  'cloche shell sbx_… --user root': [['#', 'exit\r']],
  'cloche shell sbx_… --pty pty_…': [['$', 'exit\r']],
  'cloche repl': [['>>> ', '\x04']],
  'cloche repl sbx_… --language typescript': [['> ', '\x04']],
  'cloche top': [['q quits', 'q']],
  'cloche top sbx_…': [['q quits', 'q']],
};

let service: LentService;
let cloche: Cloche;
let sandbox: Sandbox;
/** Another one, so that there is a choice. It is paused while other examples use the first. */
let other: Sandbox;
let folder: ExampleFolder;
/** Ids that stand for those with an ellipsis, by their prefixes; those of what an example ends are made each time. */
let ids: Readonly<Record<string, () => string | Promise<string>>>;

before(async () => {
  // For itself, because the examples create an organization, whose name files of the shared service use as well.
  service = await lentService();
  cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
  folder = await ExampleFolder.open(service);
  [sandbox, other] = await Promise.all([
    cloche.sandboxes.create({ ttlMs: 1_800_000 }),
    cloche.sandboxes.create({ ttlMs: 1_800_000, name: 'web-app' }),
    service.createOrg('acme'),
  ]);
  const setup = 'mkdir -p out results; echo a,b > out/report.csv; echo text > draft.md; echo png > plot.png';
  await sandbox.commands.run(setup);
  const finished = await sandbox.commands.start('echo done');
  await finished.wait();
  const [artifact, project, webhook, job] = await Promise.all([
    sandbox.artifacts.export('out/report.csv'),
    cloche.projects.create('examples'),
    cloche.webhooks.create('https://example.com/examples', { events: ['sandbox.failed'] }),
    finishedJob(),
  ]);
  const { build } = await cloche.templates.create({
    slug: 'report',
    from: 'python-node',
    setup: [{ run: 'echo built' }],
  });
  await cloche.templates.waitForBuild(build);
  ids = {
    sbx_: () => sandbox.id,
    cmd_: () => finished.id,
    art_: () => artifact.id,
    prj_: () => project.id,
    whk_: () => webhook.webhook.id,
    wrun_: () => job,
    bld_: () => build.id,
    key_: async () => (await cloche.apiKeys.create({ name: 'example', scopes: ['code:run'] })).apiKey.id,
    sec_: async () => (await cloche.secrets.create('example', { value: 'v', hosts: ['api.example.com'] })).id,
    prv_: async () => (await sandbox.previews.open(8000)).id,
    cctx_: async () => (await sandbox.contexts.create({ language: 'typescript' })).id,
    pty_: async () => (await sandbox.pty.open({ onData: () => undefined })).id,
  };
});
after(async () => {
  folder?.[Symbol.dispose]();
  await service?.close();
});

async function finishedJob(): Promise<string> {
  const run = await cloche.workspaceRuns.run({ directory: 'e2e/functional', command: 'echo done', timeoutMs: 60_000 });
  return run.id;
}

/** Returns an example with ids in place of those that end in an ellipsis. */
async function withIds(example: string): Promise<string> {
  let line = PAUSES.test(example) ? example.replaceAll('sbx_…', other.id) : example;
  for (const [prefix] of Object.entries(ids)) {
    if (line.includes(`${prefix}…`)) line = line.replaceAll(`${prefix}…`, (await ids[prefix]?.()) ?? '');
  }
  assert.doesNotMatch(line, /_…/, 'an id of an unknown kind');
  return line;
}

const examples = await examplesOfHelp();

describe('the examples of --help', { concurrency: 4 }, () => {
  for (const example of examples) {
    const skip = NOT_RUN[example] ?? false;
    it(example, { skip }, async () => {
      const line = await withIds(example);
      const inTerminal = IN_A_TERMINAL[example];
      if (inTerminal) return runInTerminal(line, inTerminal);
      const isEndless = WITHOUT_END.includes(example);
      const { exitCode, all, timedOut } = await folder.run(line, {
        timeoutMs: isEndless ? BRIEF_MS : AMPLE_MS,
      });
      assert.equal(timedOut, isEndless, all);
      if (!isEndless) assert.equal(exitCode, 0, all);
      assert.doesNotMatch(all ?? '', /^error:/m);
    });
  }

  it('the examples of --help are all there are: each that is treated differently is one of them', () => {
    for (const known of [...Object.keys(NOT_RUN), ...WITHOUT_END, ...Object.keys(IN_A_TERMINAL)])
      assert.ok(examples.includes(known), known);
  });
});

async function runInTerminal(line: string, steps: readonly Step[]): Promise<void> {
  const env = {
    ...process.env,
    CLOCHE_URL: service.url,
    CLOCHE_API_KEY: service.apiKey,
    XDG_STATE_HOME: service.dataDir,
  };
  const path = `node_modules/.bin:${process.env.PATH}`;
  const script = `PATH=${path}; ${line}; echo "ended with $?"`;
  const terminal = new TerminalProcess(['bash', '-c', script], { rows: 24, cols: 100, env });
  try {
    for (const [shows, typed] of steps) {
      await terminal.shows(shows, AMPLE_MS);
      terminal.type(typeof typed === 'string' ? typed : typed(terminal.text));
    }
    await terminal.shows(/ended with 0\r\n$/, AMPLE_MS);
  } finally {
    await terminal.close();
  }
}

/** Blocks of READMEs that do not run here, by how they begin, each with the reason. */
const BLOCKS_NOT_RUN: Readonly<Record<string, string>> = {
  'npm start': 'prepares the machine; start.test.ts starts a service',
  'ID=$(curl': 'guides.test.ts runs it',
  'npm run pack': 'npm-packages.test.ts packs and installs the packages',
  'cat > first.ts': 'guides.test.ts runs it',
  'npm install --global cloche': 'npm-packages.test.ts packs and installs the packages',
};

describe('the READMEs', { concurrency: true }, () => {
  for (const file of ['README.md', 'packages/clients/cli/README.md'])
    for (const block of blocksOf(file)) {
      const [, skip] = Object.entries(BLOCKS_NOT_RUN).find(([begin]) => block.startsWith(begin)) ?? [];
      it(`${file}: ${block.split('\n')[0]}`, { skip: skip ?? false }, async () => {
        const { exitCode, all } = await folder.run(`set -e\n${block}`, { timeoutMs: AMPLE_MS });
        assert.equal(exitCode, 0, all);
      });
    }
});

it('no id of an example has a prefix that the service does not know', async () => {
  const { ID_PREFIXES } = await import('@cloche/contract');
  for (const example of examples)
    for (const [, prefix = ''] of example.matchAll(/\b([a-z]+_)…/g))
      assert.ok(prefix === 'pty_' || Object.values<string>(ID_PREFIXES).includes(prefix), example);
});
