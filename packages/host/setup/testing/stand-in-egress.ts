import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { egressPaths } from '@cloche/protocol';

const { controlSocket } = egressPaths(process.env.CLOCHE_RUN_DIR ?? '', process.env.CLOCHE_DATA_DIR ?? '');
rmSync(controlSocket, { force: true });
createServer((_request, response) => response.end('{}')).listen(controlSocket);
process.once('SIGTERM', () => process.exit(0));
