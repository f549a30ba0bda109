import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Measurement, Row } from '../measurement.ts';
import { figuresOf } from '../statistics.ts';
import { inTurns, timed } from '../timing.ts';

const execute = promisify(execFile);
const LARGE_MB = 200;
const SMALL_BYTES = 4096;

/** Saving and downloading artifacts, compared with a plain copy of a file on the host. */
export const artifacts: Measurement = {
  name: 'artifacts',
  title: 'artifacts',
  fullOnly: true,
  async measure(bench) {
    const subject = await bench.subject();
    const id = await subject.createReady();
    const folder = mkdtempSync(join(tmpdir(), 'cloche-bench-copy-'));
    const bytes = randomBytes(LARGE_MB * 1_000_000);
    const [from, to] = [join(folder, 'from'), join(folder, 'to')];
    writeFileSync(from, bytes);
    const put = (name: string, content: Buffer) =>
      subject.http.send('PUT', `/v1/sandboxes/${id}/files/content?path=${name}`, content);
    await put('large', bytes);
    const content = (artifact: string) => `/v1/artifacts/${artifact}/content`;
    const forget = (artifact: string) => subject.http.call('DELETE', `/v1/artifacts/${artifact}`);
    /** Returns the rate of saving new content. Existing content is not stored again, so the file is changed first. */
    const keep = async () => {
      await put('change', randomBytes(16));
      await subject.command(id, ['dd', 'if=change', 'of=large', 'conv=notrunc', 'status=none']);
      let artifact = '';
      const tookMs = await timed(async () => {
        artifact = await subject.exportArtifact(id, 'large');
      });
      await forget(artifact);
      return (LARGE_MB * 1000) / tookMs;
    };
    const rate = async (act: () => Promise<unknown>) => (LARGE_MB * 1000) / (await timed(act));
    const copied = async (program: string, ...args: string[]) => {
      const copyRate = await rate(() => execute(program, args));
      rmSync(to);
      return copyRate;
    };
    const kept = await subject.exportArtifact(id, 'large');
    const large = await inTurns(bench.rounds(4, 2), {
      keep,
      copyDurably: () => copied('sh', '-c', 'cp "$1" "$2" && sync "$2"', 'sh', from, to),
      download: () => rate(() => subject.http.drain(content(kept))),
      copy: () => copied('cp', from, to),
    });
    await put('small', randomBytes(SMALL_BYTES));
    const smallOnes: string[] = [];
    const small = await inTurns(bench.rounds(100, 30), {
      keep: () => timed(async () => void smallOnes.push(await subject.exportArtifact(id, 'small'))),
      download: () => timed(() => subject.http.receive(content(smallOnes[0] ?? kept))),
    });
    for (const artifact of [kept, ...smallOnes]) await forget(artifact);
    await subject.kill(id);
    rmSync(folder, { recursive: true });
    const rows: Row[] = [
      {
        what: `keep a file of ${LARGE_MB} MB as an artifact`,
        unit: 'MB/s',
        subject: figuresOf(large.keep),
        peer: { name: 'cp and sync on the host', figures: figuresOf(large.copyDurably) },
        note: 'of new content each time; its digest is computed on the way, read back and compared, and it is on the disk',
      },
      {
        what: `download an artifact of ${LARGE_MB} MB`,
        unit: 'MB/s',
        subject: figuresOf(large.download),
        peer: { name: 'cp on the host', figures: figuresOf(large.copy) },
        note: 'its digest is compared on the way',
      },
      {
        what: 'keep a file of 4 KiB as an artifact',
        unit: 'ms',
        subject: figuresOf(small.keep),
        note: 'of content that is there; its idempotency record included',
      },
      { what: 'download an artifact of 4 KiB', unit: 'ms', subject: figuresOf(small.download) },
    ];
    return { rows };
  },
};
