/** Longest times that the server waits for an agent, in milliseconds. */
export const AGENT_LIMITS = {
  /** Until a sandbox that is being created is ready, unless the request has its own time limit. */
  readyMs: 60_000,
  /** Until an agent's first response, where the operation that follows has no limit of its own. */
  connectMs: 60_000,
  /** For the answer of an agent whose connection broke, before its sandbox counts as lost. */
  probeMs: 10_000,
  /** For a read of the agent's state: the state of a command, or its log. */
  askMs: 10_000,
  /** For a change: closing a context, killing a command. The agent stops waiting sooner for a full standard input. */
  actMs: 15_000,
  /** Until a process has started: a background command, a terminal. */
  startMs: 30_000,
  /** For file operations of a sandbox: copying or deleting a large tree takes a while. */
  filesMs: 300_000,
  /** For the sandbox behind a preview, and then for its port. After that, a page says that it is not reachable. */
  previewReadyMs: 20_000,
  previewConnectMs: 10_000,
  /** Beyond a command's own time limit: the grace of SIGTERM, then the killing of its other processes. */
  commandGraceMs: 6_000,
  /** Beyond a run's own time limit, before the server answers without the agent. */
  runGraceMs: 200,
} as const;
