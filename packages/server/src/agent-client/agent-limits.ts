/** How long the server waits for an agent, in milliseconds. */
export const AGENT_LIMITS = {
  /** For a sandbox that is still being made, unless the request has a time of its own. */
  readyMs: 60_000,
  /** For the first answer of an agent, where what follows has no limit of its own. */
  connectMs: 60_000,
  /** For what the agent knows: a command's state, its log. */
  askMs: 10_000,
  /** For a change: closing a context, killing a command. The agent gives up sooner on a full standard input. */
  actMs: 15_000,
  /** For a process to start: a background command, a terminal. */
  startMs: 30_000,
  /** For the files of a sandbox: a large tree takes a while to copy or to delete. */
  filesMs: 300_000,
  /** For a sandbox, and then its port, behind a preview: a page says that it is not reachable after that. */
  previewReadyMs: 20_000,
  previewConnectMs: 10_000,
  /** Beyond a command's own time: the grace of SIGTERM, then the killing of its other processes. */
  commandGraceMs: 6_000,
  /** Beyond a run's own time, before the server answers without the agent. */
  runGraceMs: 200,
} as const;
