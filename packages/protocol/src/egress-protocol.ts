/**
 * hostd → egress: HTTP/1.1 over `control.sock`, which answers root alone. It says which sandbox has which policy, by the
 * address that the sandbox's traffic comes from. Hostd vouches for that address: nothing but the sandbox can send by it.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `GET /health` | → `EgressHealth`: also the certificate that sandboxes are to trust |
 * | `GET /lifetime` | → headers at once, and no end while this egress lives |
 * | `GET /sandboxes` | → `GatedSandboxList` |
 * | `PUT /sandboxes` | `GatedSandboxList` → 204: these and no others |
 * | `PUT /sandboxes/:address` | `GatedSandbox` → 204 when in force; idempotent; another sandbox at the address is ended |
 * | `DELETE /sandboxes/:address` | → 204 when all its connections are ended; idempotent |
 * | `GET /metrics` | → counters in Prometheus' text form, which hostd passes on |
 * | `GET /decisions` | `DecisionQuery` → `DecisionPage`: what was decided of late, for `cloche admin egress-log` |
 *
 * Egress keeps none of this over a restart, and refuses everything to an address that it does not know. So hostd holds
 * `/lifetime` open and, when it ends, sends the whole list to the next egress.
 */
import { join } from 'node:path';
import { type Static, Type } from 'typebox';

/**
 * Where egress listens on the gateway address, for traffic that the host's rules redirect. The original destination of a
 * connection must be in the kernel's table of connections (nft `dnat`), and its source address unchanged.
 */
export const EGRESS_PORTS = {
  /** Every TCP connection of a gated sandbox but those to port 53. */
  tcp: 10_080,
  /** Every UDP datagram and TCP connection of a gated sandbox to port 53, whatever its address. */
  dns: 10_054,
} as const;

/** Setup makes the two folders for egress' user, with no access for others (0700). */
export function egressPlaces(runDir: string, dataDir: string) {
  return {
    controlDir: join(runDir, 'egress', 'control'),
    controlSocket: join(runDir, 'egress', 'control', 'control.sock'),
    /** Outlives a reboot, as sandboxes' trust in it does. */
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
    sandboxes: Type.Array(Type.Object({ address: IPV4, ...GatedSandbox.properties }, { additionalProperties: false })),
  },
  { additionalProperties: false },
);
export type GatedSandboxList = Static<typeof GatedSandboxList>;

export const EgressHealth = Type.Object({
  status: Type.Literal('ready'),
  protocolVersion: Type.Integer(),
  /** PEM. Check that it is one certificate before it goes into a sandbox's trust stores. */
  authorityCertificate: Type.String(),
});
export type EgressHealth = Static<typeof EgressHealth>;

/** One line of the egress log. What a sandbox sent is in it: bound it, and let no terminal obey it. */
export const DecisionEntry = Type.Object({
  seq: Type.Integer({ minimum: 1 }),
  at: Type.String({ maxLength: 40 }),
  sandboxId: Type.String({ maxLength: 64 }),
  /** `suppressed`: of this sandbox `count` further decisions, which came too fast to be kept. */
  verdict: Type.Union([
    Type.Literal('permitted'),
    Type.Literal('denied'),
    Type.Literal('malformed'),
    Type.Literal('failed'),
    Type.Literal('suppressed'),
  ]),
  protocol: Type.Optional(Type.String({ maxLength: 16 })),
  host: Type.Optional(Type.String({ maxLength: 256 })),
  port: Type.Optional(Type.Integer()),
  reason: Type.Optional(Type.String({ maxLength: 256 })),
  status: Type.Optional(Type.Integer()),
  bytesUp: Type.Optional(Type.Integer()),
  bytesDown: Type.Optional(Type.Integer()),
  durationMs: Type.Optional(Type.Number()),
  count: Type.Optional(Type.Integer()),
});
export type DecisionEntry = Static<typeof DecisionEntry>;

export const MAX_DECISIONS_A_PAGE = 500;
export const MAX_DECISIONS_WAIT_MS = 30_000;

/** Of a query string, so every value is text. */
export const DecisionQuery = Type.Object(
  {
    /** Those after this one; from the oldest that is kept where left out. */
    afterSeq: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })),
    sandboxId: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
    /** How long to wait for the first one. */
    waitMs: Type.Optional(Type.String({ pattern: '^[0-9]{1,5}$' })),
  },
  { additionalProperties: false },
);
export type DecisionQuery = Static<typeof DecisionQuery>;

export const DecisionPage = Type.Object({
  decisions: Type.Array(DecisionEntry, { maxItems: MAX_DECISIONS_A_PAGE }),
  /** What to ask for next. */
  nextSeq: Type.Integer(),
  /** Further ones are there already. */
  hasMore: Type.Boolean(),
  /** Other than at the start of one egress, these are no longer kept. */
  missed: Type.Integer({ minimum: 0 }),
});
export type DecisionPage = Static<typeof DecisionPage>;

/** `bad_request` 400: the message is wrong, and nothing was changed. */
export const EgressErrorBody = Type.Object({ error: Type.Object({ code: Type.String(), message: Type.String() }) });
