/** Prints what keeps sandboxes from the network of this host, as a `HostWarningList`. `cloche doctor` runs it as root. */
import type { HostWarningList } from '@cloche/protocol';
import { SLOTS_DIR } from './addressing/slots.ts';
import { measureWithoutHostd } from './network/measure-without-hostd.ts';

const ending = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => ending.abort());

const warnings = await measureWithoutHostd(SLOTS_DIR, ending.signal);
console.log(JSON.stringify({ warnings } satisfies HostWarningList));
