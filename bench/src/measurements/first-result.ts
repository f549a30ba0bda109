import { setTimeout as delay } from 'node:timers/promises';
import type { Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { inTurns, timed } from '../timing.ts';

const PAUSE_MS = 250;
const PANDAS = 'import pandas; pandas.DataFrame({"a": [1, 2, 3]})';

/** create → the result of the first cell, compared with the start of a Jupyter kernel up to its first result. */
export const firstResult: Measurement = {
  name: 'first-result',
  title: 'creation to the first result',
  async measure(bench) {
    const subject = await bench.subject();
    const jupyter = await bench.peers.jupyter();
    const rows: Row[] = [];
    for (const [shown, code, atMost, rounds] of [
      ['1+1', '1+1', 12, bench.rounds(50, 5)],
      ['import pandas; pandas.DataFrame(…)', PANDAS, 40, bench.rounds(30, 3)],
    ] as const) {
      const cloche = async () => {
        let id = '';
        const ms = await timed(async () => {
          id = await subject.create();
          await subject.run(id, code);
        });
        await subject.kill(id);
        await delay(PAUSE_MS);
        return ms;
      };
      await cloche();
      const values = await inTurns(rounds, {
        cloche,
        jupyter:
          jupyter &&
          (async (round) => {
            const ms = await jupyter.startKernel(`first-${round}`, code);
            await jupyter.stopKernel(`first-${round}`);
            return ms;
          }),
      });
      rows.push({
        what: `create → first result of \`${shown}\``,
        unit: 'ms',
        subject: figuresOf(values.cloche),
        targets: [{ atMost }],
        peer: beside('Jupyter kernel: start → first result', values.jupyter),
        ratioAtLeast: 40,
        note: `one to warm up; ${PAUSE_MS} ms between two`,
      });
    }
    return { rows };
  },
};
