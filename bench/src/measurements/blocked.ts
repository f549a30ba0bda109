import { hostileRequests, sendAll } from '../hostile-requests.ts';
import { healthOf, longestWait } from '../longest-wait.ts';
import type { Measurement, Row } from '../measurement.ts';
import { figuresOf } from '../statistics.ts';
import { Subject } from '../subject.ts';

const REQUESTS = 40;
/** Protocols that answer strangers. */
const ALL_PROTOCOLS = {
  CLOCHE_E2B: 'on',
  CLOCHE_JUPYTER: 'on',
  CLOCHE_MCP: 'on',
  CLOCHE_RUN_APIS: 'dify,piston,sandbox-fusion',
};

/** How long hostile requests without a key keep a server from others: the longest answer of `/healthz` beside them. */
export const blocked: Measurement = {
  name: 'blocked',
  title: 'longest answer of /healthz beside hostile requests',
  fullOnly: true,
  async measure(bench) {
    const subject = await Subject.open(ALL_PROTOCOLS);
    try {
      const port = Number(new URL(subject.url).port);
      const rows: Row[] = [];
      for (const { name, hostile, honest } of hostileRequests()) {
        const rounds = Array.from({ length: bench.rounds(5, 1) });
        const waits: number[] = [];
        const honestWaits: number[] = [];
        for (const _ of rounds) {
          honestWaits.push(await longestWait(healthOf(port), () => sendAll(port, honest, REQUESTS)));
          waits.push(await longestWait(healthOf(port), () => sendAll(port, hostile, REQUESTS)));
        }
        const note = `as many honest ones: ${figuresOf(honestWaits).p50.toFixed(1)} ms`;
        rows.push({ what: name, unit: 'ms', subject: figuresOf(waits), targets: [{ atMost: 50 }], note });
      }
      return { rows };
    } finally {
      await subject.close();
    }
  },
};
