import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';

const app = Fastify();
app.post('/', async () => ({}));
await app.listen({ host: '127.0.0.1', port: 0 });
process.send?.((app.server.address() as AddressInfo).port);
process.once('disconnect', () => process.exit());
