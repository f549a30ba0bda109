import { type Static, Type } from 'typebox';

export const NETWORK_MODES = ['unrestricted', 'deny-all', 'allowlist', 'denylist'] as const;

/** Schema of the name of a network mode. */
export const NetworkMode = Type.Unsafe<(typeof NETWORK_MODES)[number]>(
  Type.Union(NETWORK_MODES.map((mode) => Type.Literal(mode))),
);

/** The isolation that a runtime promises to enforce; e2e/security asserts each claim. */
export const IsolationClaims = Type.Object({
  networkModes: Type.Array(NetworkMode, { maxItems: NETWORK_MODES.length }),
  disk: Type.Union([Type.Literal('bounded'), Type.Literal('unbounded')]),
  kernel: Type.Union([Type.Literal('shared'), Type.Literal('own')]),
  /**
   * What enforces the memory limit: the host kernel (exact), or the agent by polling (a fast allocation can slip past
   * it).
   */
  memory: Type.Union([Type.Literal('kernel'), Type.Literal('watched')]),
  /** Whether the agent has its own share of processor time, memory and processes, which user code cannot use up. */
  agentShare: Type.Union([Type.Literal('own'), Type.Literal('none')]),
  /**
   * How a Python kernel is made: forked from one loaded on the host, forked from one loaded in the sandbox, or started.
   */
  pythonKernels: Type.Union([Type.Literal('forked'), Type.Literal('forked within'), Type.Literal('started')]),
  /** Whether runs continue while hostd is down. */
  hostRestarts: Type.Union([Type.Literal('unnoticed'), Type.Literal('unavailable')]),
});
export type IsolationClaims = Static<typeof IsolationClaims>;
