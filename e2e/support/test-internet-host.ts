/** The host of a test internet: `PORT [ADDRESS]`. With an address it also answers DNS, with that address. */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:http';
import { decode, encode } from 'dns-packet';

const [port = '8000', address] = process.argv.slice(2);

if (address) {
  const dns = createSocket('udp4');
  dns.on('message', (message, from) => {
    const query = decode(message);
    const [question] = query.questions ?? [];
    const known = question?.name === 'cloche.test' && question.type === 'A';
    const answer = encode({
      type: 'response',
      id: query.id ?? 0,
      // 0x8000: recursion and so on as asked; 3 is NXDOMAIN.
      flags: known ? 0 : 3,
      questions: query.questions ?? [],
      answers: known ? [{ type: 'A', name: 'cloche.test', ttl: 1, data: address }] : [],
    });
    dns.send(answer, from.port, from.address);
  });
  dns.bind(53, address);
}

createServer((request, response) => response.end(`reached ${request.headers.host}`)).listen(
  Number(port),
  '0.0.0.0',
  () => {
    console.log('listening');
  },
);
