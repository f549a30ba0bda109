/** The server, with the versions of protocols that the file of `ANNOUNCED_PROTOCOLS` has. */
import '@cloche/testkit/announced-protocols';

await import('../../packages/service/server/src/main.ts');
