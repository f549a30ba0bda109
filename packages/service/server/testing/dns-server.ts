/** A name server on the loopback that answers each query for an IPv4 address as a test says. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';

const HEADER_BYTES = 12;
const TYPE_A = 1;
const RESPONSE_WITHOUT_ERROR = 0x8180;
/** A name of an answer that is the name of the question. */
const NAME_OF_QUESTION = 0xc000 | HEADER_BYTES;

export type DnsServer = Awaited<ReturnType<typeof startDnsServer>>;

/** @param addressesOf returns the addresses for the query with this number, counted from 1; undefined for no answer */
export async function startDnsServer(addressesOf: (query: number) => readonly string[] | undefined) {
  const socket = createSocket('udp4');
  let queries = 0;
  socket.on('message', (query, from) => {
    const question = questionOf(query);
    const isForIpv4 = question.readUInt16BE(question.length - 4) === TYPE_A;
    if (isForIpv4) queries += 1;
    const addresses = isForIpv4 ? addressesOf(queries) : [];
    if (addresses) socket.send(answer(query.readUInt16BE(0), question, addresses), from.port, from.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    queries: () => queries,
    async [Symbol.asyncDispose]() {
      socket.close();
      await once(socket, 'close');
    },
  };
}

/** Returns the only question of a query: a name, a type and a class. */
function questionOf(query: Buffer): Buffer {
  let end = HEADER_BYTES;
  while (query[end] !== 0) end += 1 + (query[end] ?? 0);
  return query.subarray(HEADER_BYTES, end + 5);
}

function answer(id: number, question: Buffer, addresses: readonly string[]): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  for (const [index, value] of [id, RESPONSE_WITHOUT_ERROR, 1, addresses.length].entries())
    header.writeUInt16BE(value, index * 2);
  const records = addresses.map((address) => {
    const record = Buffer.alloc(16);
    record.writeUInt16BE(NAME_OF_QUESTION, 0);
    record.writeUInt16BE(TYPE_A, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt16BE(4, 10);
    record.set(address.split('.').map(Number), 12);
    return record;
  });
  return Buffer.concat([header, question, ...records]);
}
