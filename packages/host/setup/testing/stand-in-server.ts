import { accessSync, constants, readFileSync, rmSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { connect } from 'node:net';
import { runPaths } from '@cloche/layout';

const { hostdSocket, operatorSocket } = runPaths(process.env.CLOCHE_RUN_DIR ?? '');
let keys = 0;

const answer: RequestListener = (request, response) => {
  if (request.url === '/readyz') return response.end();
  if (request.url === '/self') return response.end(JSON.stringify(describeSelf()));
  if (request.url === '/first-key') return answerFirstKey(response);
  if (request.url === '/destroy-all') return destroyAll(response);
  response.writeHead(404).end();
};

/** Succeeds while hostd answers, and prints that. */
function destroyAll(response: Parameters<RequestListener>[1]) {
  const hostd = connect(hostdSocket, () => {
    hostd.destroy();
    console.log('destroyed all sandboxes');
    response.end('{"destroyed":0}');
  });
  hostd.once('error', () => response.writeHead(503).end('{}'));
}

function answerFirstKey(response: Parameters<RequestListener>[1]) {
  if (keys++ > 0) return response.writeHead(409).end();
  response.end(JSON.stringify({ key: { id: 'key_1', orgId: 'org_1', scopes: ['*'], secret: 'clk_first' } }));
}

function describeSelf() {
  const status = readFileSync('/proc/self/status', 'utf8');
  return {
    uid: process.getuid?.(),
    capabilities: /CapBnd:\s+(\S+)/.exec(status)?.[1],
    noNewPrivileges: /NoNewPrivs:\s+(\d)/.exec(status)?.[1],
    program: import.meta.filename,
    canWriteCode: canWrite(import.meta.dirname),
    env: process.env,
  };
}

function canWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

createServer(answer).listen(Number(process.env.CLOCHE_PORT), process.env.CLOCHE_HOST);
rmSync(operatorSocket, { force: true });
createServer(answer).listen(operatorSocket);
process.once('SIGTERM', () => process.exit(0));
