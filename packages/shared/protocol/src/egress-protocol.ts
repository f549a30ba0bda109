/**
 * hostd → egress: HTTP/1.1 over `control.sock`, to which only root can connect. hostd registers each sandbox's policy by
 * the source address of its traffic. hostd guarantees that only the sandbox can send from that address.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `GET /health` | → `EgressHealth`, with the certificate that sandboxes are to trust |
 * | `GET /lifetime` | → headers at once; the body ends when this egress ends |
 * | `GET /sandboxes` | → `GatedSandboxList` |
 * | `PUT /sandboxes` | `GatedSandboxList` → 204; replaces all registrations |
 * | `PUT /sandboxes/:address` | `GatedSandbox` → 204 once in force; idempotent; ends the connections of another sandbox at the address |
 * | `DELETE /sandboxes/:address` | → 204 once all its connections have ended; idempotent |
 * | `GET /metrics` | → counters in Prometheus' text format, which hostd passes on |
 * | `GET /decisions` | `DecisionQuery` → `DecisionPage`: recent decisions, for `cloche admin egress-log` |
 *
 * Egress loses its registrations in a restart, and refuses everything to an unknown address. So hostd keeps `/lifetime`
 * open and, when it ends, sends the whole list to the next egress.
 */
import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import { Amount, Count, MAX_LISTED, Ordinal, Sentence, Word } from './bounded.ts';

/**
 * Ports of egress on the gateway address, for traffic that the host's rules redirect. The original destination of a
 * connection must be in the kernel's connection tracking (nft `dnat`), and its source address unchanged.
 */
export const EGRESS_PORTS = {
  /** Receives every TCP connection of a gated sandbox except those to port 53. */
  tcp: 10_080,
  /** Receives every UDP datagram and TCP connection of a gated sandbox to port 53, whatever the destination address. */
  dns: 10_054,
} as const;

/** Returns the paths of egress. Setup creates the two folders for egress's user, without access for others (0700). */
export function egressPaths(runDir: string, dataDir: string) {
  return {
    controlDir: join(runDir, 'egress', 'control'),
    controlSocket: join(runDir, 'egress', 'control', 'control.sock'),
    /** Survives a reboot, because sandboxes keep trusting the authority. */
    authorityDir: join(dataDir, 'egress'),
  };
}

const IPV4 = Type.String({ pattern: '^[0-9]{1,3}(\\.[0-9]{1,3}){3}$' });

export const GatedSandbox = Type.Object(
  {
    sandboxId: Type.String({ minLength: 1, maxLength: 64 }),
    policy: Type.Object(
      {
        mode: Type.Union([Type.Literal('deny-all'), Type.Literal('allowlist'), Type.Literal('denylist')]),
        hosts: Type.Optional(Type.Array(Type.String({ maxLength: 255 }), { maxItems: 64 })),
      },
      { additionalProperties: false },
    ),
  },
  { additionalProperties: false },
);
export type GatedSandbox = Static<typeof GatedSandbox>;

export const GatedSandboxList = Type.Object(
  {
    sandboxes: Type.Array(Type.Object({ address: IPV4, ...GatedSandbox.properties }, { additionalProperties: false }), {
      maxItems: MAX_LISTED,
    }),
  },
  { additionalProperties: false },
);
export type GatedSandboxList = Static<typeof GatedSandboxList>;

export const EgressHealth = Type.Object({
  status: Type.Literal('ready'),
  protocolVersion: Count,
  /** PEM. Check that it is a single certificate before adding it to a sandbox's trust store. */
  authorityCertificate: Sentence,
});
export type EgressHealth = Static<typeof EgressHealth>;

/**
 * An entry of the egress log. It contains data from the sandbox: limit its size, and escape control characters before
 * printing it.
 */
export const DecisionEntry = Type.Object({
  seq: Ordinal,
  at: Type.String({ maxLength: 40 }),
  sandboxId: Type.String({ maxLength: 64 }),
  /** `suppressed`: `count` further decisions about this sandbox were too frequent to be kept. */
  verdict: Type.Union([
    Type.Literal('permitted'),
    Type.Literal('denied'),
    Type.Literal('malformed'),
    Type.Literal('failed'),
    Type.Literal('suppressed'),
  ]),
  protocol: Type.Optional(Type.String({ maxLength: 16 })),
  host: Type.Optional(Type.String({ maxLength: 256 })),
  port: Type.Optional(Count),
  reason: Type.Optional(Type.String({ maxLength: 256 })),
  status: Type.Optional(Count),
  bytesUp: Type.Optional(Count),
  bytesDown: Type.Optional(Count),
  durationMs: Type.Optional(Amount),
  count: Type.Optional(Count),
});
export type DecisionEntry = Static<typeof DecisionEntry>;

export const MAX_DECISIONS_A_PAGE = 500;
export const MAX_DECISIONS_WAIT_MS = 30_000;

/** Parameters of a query string, hence all text. */
export const DecisionQuery = Type.Object(
  {
    /** Return decisions after this one; from the oldest kept when left out. */
    afterSeq: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })),
    sandboxId: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
    /** Longest wait for the first decision. */
    waitMs: Type.Optional(Type.String({ pattern: '^[0-9]{1,5}$' })),
  },
  { additionalProperties: false },
);
export type DecisionQuery = Static<typeof DecisionQuery>;

export const DecisionPage = Type.Object({
  decisions: Type.Array(DecisionEntry, { maxItems: MAX_DECISIONS_A_PAGE }),
  /** Value of `afterSeq` for the next request. */
  nextSeq: Count,
  /** Whether further decisions are available now. */
  hasMore: Type.Boolean(),
  /** Number of decisions after `afterSeq` that are no longer kept; 0 after a restart of egress. */
  missed: Count,
});
export type DecisionPage = Static<typeof DecisionPage>;

/** Body of an error. `bad_request` 400: the message is invalid, and nothing was changed. */
export const EgressErrorBody = Type.Object({ error: Type.Object({ code: Word, message: Sentence }) });
