import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { execa } from 'execa';
import type { Bench, Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { inTurns, repeat, timed } from '../timing.ts';

const WHEEL = 'heavy-1.0-py3-none-any.whl';
const MODULES = 300;
/** Time that the heavy module takes to load. */
const LOADING_S = 2;
/** Time in which a sandbox that was launched on demand loads its warm imports. */
const WARMED_MS = 8_000;
/** Has the wheel, so that a build from it has one step. */
const BASE = 'bench-wheel';
const BUILT = 'bench-built';
const WARM = 'bench-warm';

/** Templates of an organization: builds, and sandboxes of them beside those of the curated one. */
export const templates: Measurement = {
  name: 'templates',
  title: 'templates of an organization',
  async measure(bench) {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-bench-template-'));
    try {
      return { rows: await measureWith(await wheelIn(folder), bench) };
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
};

async function measureWith(wheel: Buffer, bench: Bench): Promise<Row[]> {
  const subject = await bench.subject();
  const file = { path: `/opt/${WHEEL}`, content: wheel.toString('base64'), encoding: 'base64' };
  await build(subject, BASE, { from: 'python-node', files: [file] });
  await build(subject, WARM, { ...installing('warm'), warm: { imports: ['heavy'] } });
  const builds = await inTurns(bench.rounds(10, 3), {
    cloche: (round) => timed(() => build(subject, BUILT, installing(`round ${round}`))),
    pip: async () => {
      const id = await subject.createReady({ template: BASE });
      const took = await timed(() => subject.command(id, ['python3', '-m', 'pip', 'install', `/opt/${WHEEL}`]));
      await subject.kill(id);
      return took;
    },
  });
  const again = await repeat(bench.rounds(15, 5), () => timed(() => build(subject, BUILT, installing('round 0'))));
  const launches = await inTurns(bench.rounds(15, 5), {
    own: () => launch(subject, { template: WARM }),
    curated: () => launch(subject, {}),
  });
  const runs = await inTurns(bench.rounds(8, 3), {
    own: () => firstRun(subject, { template: WARM }, 'import heavy\nheavy.VALUE'),
    curated: () => firstRun(subject, {}, '42'),
  });
  for (const slug of [BUILT, WARM, BASE]) await subject.http.call('DELETE', `/v1/templates/${slug}`);
  return [
    {
      what: 'build a template that adds one pip package',
      unit: 'ms',
      subject: figuresOf(builds.cloche),
      peer: beside('pip install in a sandbox', builds.pip),
      ratioAtMost: 1.5,
      note: `a wheel of ${MODULES} modules from a file; the build has one step, which is not cached`,
    },
    {
      what: 'build an unchanged template again',
      unit: 'ms',
      subject: figuresOf(again),
      targets: [{ atMost: 300 }],
    },
    {
      what: 'create → ready, of a version with two layers',
      unit: 'ms',
      subject: figuresOf(launches.own),
      peer: beside('the curated template', launches.curated),
      note: 'the pool holds what was asked for lately, which can be both',
    },
    {
      what: `first run that imports a module of ${LOADING_S} s, which is in warm.imports`,
      unit: 'ms',
      subject: figuresOf(runs.own),
      peer: beside('first run of the curated template', runs.curated),
      ratioAtMost: 1.5,
      note: `${WARMED_MS / 1000} s after the sandbox is ready`,
    },
  ];
}

/** Returns the recipe of a round, whose step differs from those of other rounds. */
function installing(round: string) {
  const run = `python3 -m pip install --no-index --root-user-action=ignore /opt/${WHEEL}`;
  return { from: BASE, setup: [{ run, env: { ROUND: round } }] };
}

/** @throws when the build does not succeed, so that failures are not measured */
async function build({ http }: Subject, template: string, recipe: object): Promise<void> {
  const headers = { 'idempotency-key': randomUUID() };
  const exists = (await http.call('GET', '/v1/templates')).body.data.some(
    ({ slug }: { slug: string }) => slug === template,
  );
  const { body } = exists
    ? await http.call('POST', `/v1/templates/${template}/builds`, recipe, headers)
    : await http.call('POST', '/v1/templates', { slug: template, ...recipe }, headers);
  for (let { build: current } = body; ; ) {
    if (current.status === 'succeeded') return;
    if (current.finishedAt !== undefined)
      throw new Error(`${current.id} is ${current.status}: ${current.error?.message}`);
    const path = `/v1/templates/${template}/builds/${current.id}?waitMs=30000`;
    current = (await http.call('GET', path)).body.build;
  }
}

async function launch(subject: Subject, body: Record<string, unknown>): Promise<number> {
  await subject.settled();
  let id = '';
  const took = await timed(async () => {
    id = await subject.createReady(body);
  });
  await subject.kill(id);
  return took;
}

async function firstRun(subject: Subject, body: Record<string, unknown>, code: string): Promise<number> {
  const id = await subject.createReady(body);
  await delay(WARMED_MS);
  const took = await timed(() => subject.run(id, code));
  await subject.kill(id);
  return took;
}

/** Returns a wheel with a module that takes long to load, and many small ones. */
async function wheelIn(folder: string): Promise<Buffer> {
  const info = 'heavy-1.0.dist-info';
  const files: Record<string, string> = {
    'heavy/__init__.py': `import time\ntime.sleep(${LOADING_S})\nVALUE = 42\n`,
    [`${info}/METADATA`]: 'Metadata-Version: 2.1\nName: heavy\nVersion: 1.0\n',
    [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
  };
  for (let index = 0; index < MODULES; index += 1)
    files[`heavy/module_${index}.py`] = `def value_${index}(x):\n    return x + ${index}\n`.repeat(20);
  for (const name of ['heavy', info]) mkdirSync(join(folder, name));
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
  writeFileSync(
    join(folder, info, 'RECORD'),
    Object.keys(files)
      .map((path) => `${path},,\n`)
      .join(''),
  );
  await execa('python3', ['-m', 'zipfile', '-c', WHEEL, 'heavy', info], { cwd: folder });
  return readFileSync(join(folder, WHEEL));
}
