/**
 * Server ↔ agent: HTTP/1.1 over the sandbox's Unix socket (or TCP with mTLS in a cluster). The agent is always the
 * HTTP server. Its answers are untrusted input: the server limits the size of every body and checks it against these
 * schemas.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `GET /health` | → `AgentHealth`; answers when kernels can be started |
 * | `GET /activity` | → `AgentActivity` |
 * | `POST /pause` | `PauseAgent` → `AgentPaused`, or 409 `running`; idempotent by token |
 * | `POST /resume` | `ResumeAgent` → `{}`; idempotent |
 * | `PUT /environment` | `SetEnvironment` → 204; once, before the first context |
 * | `DELETE /expected-kernel` | → 204; the host provides no kernel for the context that has waited longest for one |
 * | `PUT /spare-kernels/:language` | by hostd → 204; a kernel is started ahead |
 * | `GET /spare-kernels/python` | by hostd → 204 when the first kernel that the sandbox forks itself waits, or never will |
 * | `GET /contexts` | → `AgentContextList` |
 * | `PUT /contexts/:contextId` | `OpenContext` → `AgentContext`; idempotent by id |
 * | `DELETE /contexts/:contextId` | → 204; idempotent; ends its executions with `CanceledError`; the id is not opened again |
 * | `POST /contexts/:contextId/interrupt` | → 204; the current run ends with `CanceledError`, the state is kept |
 * | `POST /contexts/:contextId/messages` | `AnswerMessage` → 204; for the run that is executed |
 * | `POST /contexts/:contextId/restart` | → 204; starts a new kernel; the current run ends with `CanceledError` |
 * | `GET /runs` with `Upgrade: cloche-runs` | → 101; afterwards the connection carries runs |
 * | `GET /ports/:port` | with `Upgrade: cloche-tunnel` → 101 and a connection to that port of the sandbox's loopback |
 *
 * On a connection for runs, the server sends a `StartRun`, and the agent answers with `AgentRunEvent`s up to `done`, or
 * with one `AgentErrorBody`. Then the server may send the next `StartRun`. Each message is one JSON text and a line feed.
 * The first one may be sent with the upgrade request. A connection carries one run at a time, so a slow reader delays
 * only its own run. Closing the connection before `done` cancels the run: it is interrupted, or removed from the queue.
 * With `RUNS_KEEP_ALIVE` in the request and the response, the server also sends empty lines during a run, and the agent
 * closes the connection when it has received nothing for `RUN_SILENCE_MS`.
 * After `POST /pause` the agent's gate is closed: what would start work or reach files is refused with `pausing`, and
 * nothing of it is executed. `POST /resume` opens the gate. If the instance is not frozen, the gate opens by itself after
 * `GATE_TICKS` ticks.
 * The other requests also answer failures with `AgentErrorBody`. A request with the header `cloche-timed` gets the header
 * `server-timing` (`timings.ts`).
 */
import { type Static, Type } from 'typebox';
import { Count, Environment, Ordinal, Path, Sentence, Word } from './bounded.ts';
import { MAX_TIMINGS_CHARACTERS } from './timings.ts';

/** Most characters of a run's code, or of a message to it. */
const MAX_REQUEST_CHARACTERS = 6 * 1024 * 1024;
/** Most characters of an output: as many bytes of JSON as a client can ask for. */
const MAX_OUTPUT_CHARACTERS = 48 * 1024 * 1024;

export const Language = Type.Union([Type.Literal('python'), Type.Literal('javascript'), Type.Literal('typescript')]);
export type Language = Static<typeof Language>;

export const AgentHealth = Type.Object({ status: Type.Literal('ready'), protocolVersion: Count });

/** The work in the sandbox for clients of any server: runs, commands, and clients at terminals. */
export const AgentActivity = Type.Object({ running: Type.Boolean() });

/** Asks the agent to start no more work, before the instance is frozen. */
export const PauseAgent = Type.Object({
  /** Names the pause, so that a `ResumeAgent` for another one opens nothing. */
  token: Word,
  /** Whether runs and waited commands are ended. Otherwise the request is refused while there are some. */
  force: Type.Boolean(),
  /** Whether it is refused, too, while a request opens a context, or reads or writes files. Earlier agents ignore it. */
  isIdle: Type.Optional(Type.Boolean()),
});
export type PauseAgent = Static<typeof PauseAgent>;

export const AgentPaused = Type.Object({ isPaused: Type.Literal(true) });

/** Ends a pause. Agents ignore `entropy` and `now` while memory is only frozen: their processes have not been copied. */
export const ResumeAgent = Type.Object({
  token: Word,
  /** 32 bytes of the server's own generator, in base64. */
  entropy: Type.String({ maxLength: 64 }),
  /** Milliseconds since 1970. */
  now: Count,
});
export type ResumeAgent = Static<typeof ResumeAgent>;

/** Variables added to the environment of every process that is started for the client. */
export const SetEnvironment = Type.Object({ env: Environment });

export const OpenContext = Type.Object({
  language: Language,
  /** Absolute path, resolved in the sandbox with its links. */
  cwd: Path,
  /** Longest time until the kernel is ready. */
  timeoutMs: Ordinal,
  /** Milliseconds to wait for a kernel that the host provides, before the agent starts one. */
  kernelWaitMs: Type.Optional(Count),
});
export type OpenContext = Static<typeof OpenContext>;

export const AgentContext = Type.Object({ contextId: Word, language: Language, cwd: Path });
export type AgentContext = Static<typeof AgentContext>;
export const AgentContextList = Type.Object({ contexts: Type.Array(AgentContext, { maxItems: 1_024 }) });

/** Which claim of which idempotency record a run belongs to. A higher claim of a record ends the run of a lower one. */
export const RunOperation = Type.Object({ recordId: Word, claim: Ordinal });
export type RunOperation = Static<typeof RunOperation>;

export const StartRun = Type.Object({
  contextId: Word,
  /** Opens the context first if it is not open, as a separate request would. */
  open: Type.Optional(OpenContext),
  runId: Word,
  /** Absent if the request has no `Idempotency-Key`. */
  operation: Type.Optional(RunOperation),
  code: Type.String({ maxLength: MAX_REQUEST_CHARACTERS }),
  /**
   * A message of a client, to answer in place of running `code`. Kernels without messages run the code, and send no
   * event `message`.
   */
  message: Type.Optional(Type.String({ maxLength: MAX_REQUEST_CHARACTERS })),
  /** Asks for `timings` in `done`. */
  timed: Type.Optional(Type.Boolean()),
  /** Limit from the arrival of this request, including the wait in the context's queue. */
  timeoutMs: Ordinal,
  /** Limits of the JSON-encoded sizes. */
  limits: Type.Object({
    stdoutBytes: Count,
    stderrBytes: Count,
    /** Limit of one output's value; a larger value is left out, and the output says so. */
    outputBytes: Count,
    /** Limit of all outputs of the run together. */
    outputsBytes: Count,
  }),
});
export type StartRun = Static<typeof StartRun>;

/** The answer of a client to a message of the run that its context executes. */
export const AnswerMessage = Type.Object({ message: Type.String({ maxLength: MAX_REQUEST_CHARACTERS }) });

/** Agents cut longer texts of errors. */
const ErrorText = Type.String({ maxLength: 1024 * 1024 });

export const RunError = Type.Object({
  name: Word,
  message: ErrorText,
  traceback: Type.Optional(Type.Array(ErrorText, { maxItems: 1_000 })),
});
export type RunError = Static<typeof RunError>;

export const OUTPUT_FORMATS = [
  'text',
  'html',
  'markdown',
  'latex',
  'svg',
  'png',
  'jpeg',
  'gif',
  'pdf',
  'json',
  'javascript',
  'chart',
  'data',
] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

export const AgentOutput = Type.Object({
  kind: Type.Literal('inline'),
  format: Type.Union(OUTPUT_FORMATS.map((format) => Type.Literal(format))),
  mimeType: Word,
  /** Text unchanged, JSON as text, binary as base64. */
  value: Type.String({ maxLength: MAX_OUTPUT_CHARACTERS }),
  role: Type.Union([Type.Literal('result'), Type.Literal('display')]),
  /** Number of the output within the run, from 0. Outputs with the same number are forms of the same value. */
  bundle: Count,
});
export type AgentOutput = {
  kind: 'inline';
  format: OutputFormat;
  mimeType: string;
  value: string;
  role: 'result' | 'display';
  bundle: number;
};

/** Bytes cut from each stream; a stream is absent when nothing was cut. */
export const Truncation = Type.Object({
  stdout: Type.Optional(Ordinal),
  stderr: Type.Optional(Ordinal),
});

export const RunDone = Type.Object({
  executionCount: Count,
  durationMs: Count,
  error: Type.Optional(RunError),
  truncated: Type.Optional(Truncation),
  /** Whether the kernel was replaced since this context's previous result. */
  stateLost: Type.Optional(Type.Boolean()),
  /** The times of the run: the whole, `open` of its context, `queue` and `execute` (`timings.ts`). */
  timings: Type.Optional(Type.String({ maxLength: MAX_TIMINGS_CHARACTERS })),
});
export type RunDone = Static<typeof RunDone>;

const runEvent = <Name extends string, Data extends Parameters<typeof Type.Object>[0][string]>(
  type: Name,
  data: Data,
) => Type.Object({ type: Type.Literal(type), runId: Word, data });

/** Agents send longer texts in several events. */
const StreamText = Type.String({ maxLength: 1024 * 1024 });

/** An event of a run. `done` is always the last event and is always sent, unless the connection breaks. */
export const AgentRunEvent = Type.Union([
  runEvent('stdout', StreamText),
  runEvent('stderr', StreamText),
  runEvent('output', AgentOutput),
  runEvent('message', Type.String({ maxLength: MAX_OUTPUT_CHARACTERS })),
  runEvent('error', RunError),
  runEvent('done', RunDone),
]);
export type AgentRunEvent =
  | { type: 'stdout' | 'stderr' | 'message'; runId: string; data: string }
  | { type: 'output'; runId: string; data: AgentOutput }
  | { type: 'error'; runId: string; data: RunError }
  | { type: 'done'; runId: string; data: RunDone };

/** Longest line of the stream: an output of the maximum size, encoded with base64 and escapes, fits. */
export const MAX_AGENT_EVENT_BYTES = 64 * 1024 * 1024;

/**
 * Error codes of the agent, with their HTTP status.
 *
 * `invalid_cwd` 400: `cwd` does not exist, is not a folder or is outside the workspace; `not_found` 404: no such
 * context, or it was closed; `language_unavailable` 409: the template has no kernel for the language; `kernel_failed`
 * 500: the kernel did not start; `process_limit` 429: the sandbox had no process left for the kernel; `timeout` 504:
 * the kernel did not start within `timeoutMs`; `queue_full` 429: too many runs wait in the context; `port_closed` 409:
 * no process listens on the port; `conflict` 409: the current state does not allow the operation; `unusable` 409: the
 * workspace or the interpreter of the sandbox cannot be used until its user repairs it; `bad_request` 400: the message
 * does not match its schema; `running` 409: only of `POST /pause`, with the number of runs and waited commands; `pausing`
 * 409 (423 to a `HEAD`, which has no body): the gate is closed.
 */
export const AGENT_ERROR_CODES = [
  'invalid_cwd',
  'not_found',
  'conflict',
  'language_unavailable',
  'kernel_failed',
  'process_limit',
  'timeout',
  'queue_full',
  'port_closed',
  'unusable',
  'running',
  'pausing',
  'bad_request',
  'internal',
] as const;
export type AgentErrorCode = (typeof AGENT_ERROR_CODES)[number];
export const AgentErrorBody = Type.Object({
  error: Type.Object({
    code: Word,
    message: Sentence,
    /** Path of the file that `permission_denied` is about. */
    path: Type.Optional(Path),
    /** Number of runs and waited commands that `running` is about. */
    running: Type.Optional(Count),
  }),
});
