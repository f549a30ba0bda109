import type { Socket } from 'node:net';

/** Carries the bytes of two sockets to each other, and ends both with either. */
export function relay(one: Socket, other: Socket): void {
  for (const [from, to] of [[one, other] as const, [other, one] as const]) {
    from.pipe(to);
    from.on('error', () => from.destroy()).on('close', () => to.destroy());
  }
}
