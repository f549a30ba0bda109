import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packDirectory } from '@cloche/sdk/pack-directory';
import { execa } from 'execa';
import type { Bench, Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { inTurns, repeat, timed } from '../timing.ts';

const FILES = 1000;
const FILE_BYTES = 10_000;
const MEGABYTES = (FILES * FILE_BYTES) / 1e6;

/**
 * Workspace runs: from the start of a run whose archive is stored to its end, and the rates at which directories are
 * packed and unpacked.
 */
export const jobs: Measurement = {
  name: 'jobs',
  title: 'workspace runs',
  async measure(bench) {
    const directory = workspace();
    try {
      return { rows: await measureIn(directory, bench) };
    } finally {
      rmSync(directory, { recursive: true });
    }
  },
};

async function measureIn(directory: string, bench: Bench): Promise<Row[]> {
  const subject = await bench.subject();
  const archive = await packed(directory);
  const rate = (took: number) => (MEGABYTES * 1000) / took;
  const run = async () => {
    const id = await uploadedRun(subject, archive);
    await subject.settled();
    return timed(() => runToEnd(subject, id));
  };
  await repeat(3, run);
  const runs = await repeat(bench.rounds(30, 8), run);
  const packs = await inTurns(bench.rounds(15, 5), {
    cloche: async () => rate(await timed(() => packed(directory))),
    tar: async () => rate(await timed(() => execa('tar', ['-C', directory, '-cf', '-', '.'], { encoding: 'buffer' }))),
  });
  const sandboxId = await subject.createReady();
  const unpacks = await inTurns(bench.rounds(15, 5), {
    cloche: async (round) =>
      rate(await timed(() => unpackInSandbox(subject, sandboxId, `/workspace/${round}`, archive))),
    tar: async () => rate(await timed(() => unpackHere(archive))),
  });
  await subject.kill(sandboxId);
  const size = `${FILES.toLocaleString('en')} files, ${MEGABYTES} MB`;
  return [
    {
      what: `workspace run of \`true\`, ${size}: start → succeeded`,
      unit: 'ms',
      subject: figuresOf(runs),
      targets: [{ atMost: 150 }],
      note: 'three to warm up; the archive is uploaded before, and the pool is full',
    },
    {
      what: `pack a directory, ${size}`,
      unit: 'MB/s',
      subject: figuresOf(packs.cloche),
      peer: beside('tar', packs.tar),
    },
    {
      what: `unpack an archive into a sandbox, ${size}`,
      unit: 'MB/s',
      subject: figuresOf(unpacks.cloche),
      peer: beside('tar on the host', unpacks.tar),
      note: 'with the upload',
    },
  ];
}

function workspace(): string {
  const directory = mkdtempSync(join(tmpdir(), 'cloche-bench-job-'));
  for (let index = 0; index < FILES; index += 1) {
    const folder = join(directory, `folder-${index % 40}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      join(folder, `file-${index}.txt`),
      `${index} ${'lorem ipsum '.repeat(FILE_BYTES)}`.slice(0, FILE_BYTES),
    );
  }
  return directory;
}

async function packed(directory: string): Promise<Buffer> {
  const nothing = () => undefined;
  await using source = await packDirectory(directory, {
    compress: false,
    streamedBytes: 1e9,
    maxBytes: 1e9,
    maxEntries: 2 * FILES,
    onNote: nothing,
    onProgress: nothing,
    signal: undefined,
  });
  const chunks: Uint8Array[] = [];
  for await (const chunk of source.open(nothing)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function uploadedRun({ http }: Subject, archive: Buffer): Promise<string> {
  const { body } = await http.call('POST', '/v1/workspace-runs', { command: 'true' }, key());
  const { id } = body.workspaceRun;
  await http.call('PUT', `/v1/workspace-runs/${id}/archive`, archive, {
    ...key(),
    'content-type': 'application/x-tar',
  });
  return id;
}

/** @throws when the run does not succeed, so that failures are not measured */
async function runToEnd({ http }: Subject, id: string): Promise<void> {
  await http.call('POST', `/v1/workspace-runs/${id}/start`, undefined, key());
  const { body } = await http.call('GET', `/v1/workspace-runs/${id}?waitFor=finished&waitMs=60000`);
  const { status, error } = body.workspaceRun;
  if (status !== 'succeeded') throw new Error(`${id} is ${status}: ${error?.message}`);
}

async function unpackInSandbox({ http }: Subject, sandboxId: string, path: string, archive: Buffer): Promise<void> {
  await http.send('PUT', `/v1/sandboxes/${sandboxId}/files/archive?path=${path}`, archive);
}

async function unpackHere(archive: Buffer): Promise<void> {
  const target = mkdtempSync(join(tmpdir(), 'cloche-bench-unpack-'));
  await execa('tar', ['-C', target, '-xf', '-'], { input: archive });
  rmSync(target, { recursive: true });
}

function key(): Record<string, string> {
  return { 'idempotency-key': randomUUID() };
}
