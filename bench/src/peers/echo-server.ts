/** Forwards each POST as a line to the agent of `echo-agent.ts`, and answers with the line that it returns. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import fastify from 'fastify';

const agent = spawn(process.execPath, [new URL('./echo-agent.ts', import.meta.url).pathname], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const waiting: ((line: string) => void)[] = [];
createInterface(agent.stdout).on('line', (line) => waiting.shift()?.(line));
const app = fastify();
app.post('/', async (request) => {
  agent.stdin.write(`${JSON.stringify(request.body)}\n`);
  return JSON.parse(await new Promise((resolve) => waiting.push(resolve)));
});
const url = await app.listen({ host: '127.0.0.1', port: 0 });
process.send?.(Number(new URL(url).port));
process.once('disconnect', () => process.exit());
