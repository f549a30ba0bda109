/** Forwards lines to a Python process, where one thread listens while the other answers, and returns its answers. */
import { spawn } from 'node:child_process';

const KERNEL = `
import _thread, os, queue
lines = queue.SimpleQueue()
def listen():
    while line := os.read(0, 65536): lines.put(line)
    os._exit(0)
_thread.start_new_thread(listen, ())
while True: os.write(1, lines.get())
`;

const kernel = spawn('python3', ['-c', KERNEL], { stdio: ['pipe', 'pipe', 'inherit'] });
process.stdin.on('data', (lines) => kernel.stdin.write(lines));
kernel.stdout.on('data', (lines) => process.stdout.write(lines));
process.stdin.on('end', () => kernel.stdin.end());
