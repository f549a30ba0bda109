import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { runPaths } from '@cloche/layout';

const { hostdSocket } = runPaths(process.env.CLOCHE_RUN_DIR ?? '');
rmSync(hostdSocket, { force: true });
const server = createServer((request, response) => {
  response.end(request.url === '/instances' ? '{"instances":[]}' : '{}');
});
// Lets the service's account connect, as hostd's real socket does.
process.umask(0);
server.listen(hostdSocket);
process.once('SIGTERM', () => process.exit(0));
