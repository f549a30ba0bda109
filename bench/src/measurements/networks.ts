import { setTimeout as delay } from 'node:timers/promises';
import type { Measurement, Row } from '../measurement.ts';
import { figuresOf } from '../statistics.ts';
import { inTurns, timed } from '../timing.ts';

const POLICIES = {
  unrestricted: { mode: 'unrestricted' },
  'deny-all': { mode: 'deny-all' },
  allowlist: { mode: 'allowlist', hosts: ['example.com'] },
  denylist: { mode: 'denylist', hosts: ['example.com'] },
} as const;

/** Cost of each network policy when a sandbox is created. */
export const networks: Measurement = {
  name: 'networks',
  title: 'creation with each network policy',
  fullOnly: true,
  async measure(bench) {
    const subject = await bench.subject();
    const act = (networkPolicy: object) => async () => {
      let id = '';
      const ms = await timed(async () => {
        id = await subject.createReady({ networkPolicy });
      });
      await subject.kill(id);
      await delay(100);
      return ms;
    };
    const acts = {
      unrestricted: act(POLICIES.unrestricted),
      'deny-all': act(POLICIES['deny-all']),
      allowlist: act(POLICIES.allowlist),
      denylist: act(POLICIES.denylist),
    };
    await inTurns(1, acts);
    const values = await inTurns(bench.rounds(40, 8), acts);
    const peer = { name: 'unrestricted', figures: figuresOf(values.unrestricted) };
    const rows = (Object.keys(values) as (keyof typeof values)[]).map(
      (mode): Row => ({
        what: `create → ready, ${mode}`,
        unit: 'ms',
        subject: figuresOf(values[mode]),
        ...(mode !== 'unrestricted' && { peer }),
      }),
    );
    return { rows };
  },
};
