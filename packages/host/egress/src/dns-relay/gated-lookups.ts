import { randomInt } from 'node:crypto';
import type { ClosedAddresses } from '@cloche/settings';
import {
  type Answer,
  type DecodedPacket,
  decode,
  encode,
  type Question,
  RECURSION_AVAILABLE,
  RECURSION_DESIRED,
  TRUNCATED_RESPONSE,
} from 'dns-packet';
import type { DecisionLog } from '../decisions/decision-log.ts';
import { permitsHost } from '../policy/egress-policy.ts';
import { normalizeHost } from '../policy/host-name.ts';
import type { GatedSandboxes } from '../sandboxes/gated-sandboxes.ts';
import type { SandboxTraffic } from '../sandboxes/sandbox-traffic.ts';
import type { LookupPlan, Transport } from './dns-relay.ts';

const RCODE_NXDOMAIN = 3;
const RCODE_REFUSED = 5;
const RCODE_BITS = 0xf;
const OPCODE_BITS = 0x7800;
const DATAGRAM_BYTES = 1232;
const PLAIN_DATAGRAM_BYTES = 512;
const DNS_PORT = 53;

/** Query types that a denylist permits. Leaves out those for IPv6 and HTTP/3, which sandboxes do not have. */
const ORDINARY_TYPES = new Set(['A', 'CNAME', 'CAA', 'MX', 'NS', 'PTR', 'SOA', 'SRV', 'TXT']);

export interface GatedLookupsDeps {
  sandboxes: GatedSandboxes;
  closed: ClosedAddresses;
  decisions: DecisionLog;
}

/**
 * Decides the DNS lookups of gated sandboxes. A denied name is answered here and never sent, so that names cannot carry
 * data out. For a permitted name egress writes its own query, so that the query carries nothing else.
 */
export function planGatedLookup({ sandboxes, closed, decisions }: GatedLookupsDeps) {
  return (query: Buffer, source: string, transport: Transport): LookupPlan => {
    const asked = decode(query);
    const [question] = asked.questions ?? [];
    const traffic = sandboxes.find(source);
    const isOrdinary = asked.questions?.length === 1 && ((asked.flags ?? 0) & OPCODE_BITS) === 0;
    if (!question || !traffic || !isOrdinary) return { answer: respond(asked, RCODE_REFUSED) };

    const host = normalizeHost(question.name);
    const isPermitted = host?.kind === 'name' && permitsHost(traffic.policy, host) && (question.class ?? 'IN') === 'IN';
    decisions.record({
      sandboxId: traffic.sandboxId,
      protocol: 'dns',
      host: question.name,
      port: DNS_PORT,
      ...(isPermitted ? { verdict: 'permitted' } : { verdict: 'denied', reason: 'policy' }),
    });
    if (!isPermitted) return { answer: respond(asked, RCODE_NXDOMAIN) };
    if (!isAskedOn(question, traffic)) return { answer: respond(asked, 0) };
    return {
      ask: ownQuestion({ ...question, name: host.name }),
      finish: (answer) => respondWith(asked, decode(answer), closed, maxAnswerBytes(asked, transport)),
    };
  };
}

function isAskedOn({ type }: Question, { policy }: SandboxTraffic): boolean {
  return policy.mode === 'allowlist' ? type === 'A' : ORDINARY_TYPES.has(type);
}

function ownQuestion(question: Question): Buffer {
  return encode({
    type: 'query',
    id: randomInt(65_536),
    flags: RECURSION_DESIRED,
    questions: [question],
    additionals: [
      {
        type: 'OPT',
        name: '.',
        udpPayloadSize: DATAGRAM_BYTES,
        extendedRcode: 0,
        ednsVersion: 0,
        flags: 0,
        flag_do: false,
        options: [],
      },
    ],
  });
}

/** Returns an answer with records of the requested type only, and only with addresses that sandboxes may reach. */
function respondWith(asked: DecodedPacket, answer: DecodedPacket, closed: ClosedAddresses, maxBytes: number): Buffer {
  const type = asked.questions?.[0]?.type;
  const kept = (answer.answers ?? []).filter((one) => {
    if (one.type === 'A') return type === 'A' && !closed.isClosed(one.data);
    return one.type === type || one.type === 'CNAME';
  });
  const flags = (answer.flags ?? 0) & (RCODE_BITS | TRUNCATED_RESPONSE);
  const whole = respond(asked, flags, kept);
  return whole.length <= maxBytes ? whole : respond(asked, flags | TRUNCATED_RESPONSE);
}

function respond(asked: DecodedPacket, flags: number, answers: Answer[] = []): Buffer {
  const { id = 0, questions = [] } = asked;
  return encode({
    type: 'response',
    id,
    flags: ((asked.flags ?? 0) & RECURSION_DESIRED) | RECURSION_AVAILABLE | flags,
    questions: questions.slice(0, 1),
    answers,
  });
}

/** Returns the size of the largest answer that the client accepts. */
function maxAnswerBytes({ additionals = [] }: DecodedPacket, transport: Transport): number {
  if (transport === 'connection') return Number.POSITIVE_INFINITY;
  const announced = additionals.find((one) => one.type === 'OPT')?.udpPayloadSize ?? 0;
  return Math.max(PLAIN_DATAGRAM_BYTES, announced);
}
