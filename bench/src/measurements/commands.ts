import type { Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { inTurns, timed } from '../timing.ts';

const FLOOD_MB = 50;
const FLOOD = `head -c ${FLOOD_MB}000000 /dev/zero | tr '\\0' x | fold -w 99`;

/** Commands: the time until a trivial one is answered, and the rate at which the output of a verbose one is read. */
export const commands: Measurement = {
  name: 'commands',
  title: 'commands',
  async measure(bench) {
    const subject = await bench.subject();
    const docker = await bench.peers.docker();
    const id = await subject.createReady();
    const container = await docker?.run();
    const run = (command: readonly string[]) => timed(() => subject.command(id, command));
    const exec =
      docker && container ? (command: readonly string[]) => timed(() => docker.exec(container, command)) : undefined;
    const trivial = ['true'];
    await inTurns(5, { cloche: () => run(trivial), docker: exec && (() => exec(trivial)) });
    const short = await inTurns(bench.rounds(200, 40), {
      cloche: () => run(trivial),
      docker: exec && (() => exec(trivial)),
    });
    const loud = ['sh', '-c', FLOOD];
    const rate = async (act: Promise<number>) => (FLOOD_MB * 1000) / (await act);
    const floods = await inTurns(bench.rounds(5, 2), {
      cloche: () => rate(run(loud)),
      docker: exec && (() => rate(exec(loud))),
    });
    await subject.kill(id);
    if (container) await docker?.remove(container);
    const name = `docker exec (${docker?.version}, by its API)`;
    const rows: Row[] = [
      {
        what: 'command `true`: request → answer',
        unit: 'ms',
        subject: figuresOf(short.cloche),
        peer: beside(name, short.docker),
        note: 'five to warm up; its idempotency record included',
      },
      {
        what: `${FLOOD_MB} MB of output through a command`,
        unit: 'MB/s',
        subject: figuresOf(floods.cloche),
        peer: beside(name, floods.docker),
        note: 'both have what makes the output in it; Cloche keeps the last 16 MiB, Docker passes all on',
      },
    ];
    return { rows };
  },
};
