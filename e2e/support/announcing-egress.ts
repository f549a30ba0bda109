/** Egress, with the versions of protocols that the file of `ANNOUNCED_PROTOCOLS` has. */
import '@cloche/testkit/announced-protocols';

await import('../../packages/host/egress/src/main.ts');
