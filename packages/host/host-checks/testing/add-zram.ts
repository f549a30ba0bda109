/** Adds compressed swap for the owner that is named, says so, and waits to be killed. */
import { setTimeout as delay } from 'node:timers/promises';
import { addZramSwap } from '../src/zram-swap.ts';

const MEBIBYTE = 1024 * 1024;

await addZramSwap(process.argv[2] ?? '', 64 * MEBIBYTE);
process.stdout.write('added\n');
await delay(3_600_000);
