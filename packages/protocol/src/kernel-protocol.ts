/**
 * Agent ↔ kernel: frames on the kernel's private descriptor.
 *
 * The kernel is started with one end of a stream socket as descriptor 3. It moves it out of reach of user code
 * (high number, close-on-exec) before the first cell. A frame is a 4-byte big-endian length and that many bytes
 * of UTF-8 JSON. Standard output and error are pipes that the agent reads itself: they are never framed, so
 * nothing that user code prints can be mistaken for a message.
 */
import { type Static, Type } from 'typebox';

/** Runs `code` as the next cell. One at a time: the agent queues. */
export const ExecuteMessage = Type.Object({
  type: Type.Literal('execute'),
  runId: Type.String(),
  code: Type.String(),
  /** Whether it is run ahead of the first cell, for what that one would cost: it leaves no trace. */
  warmUp: Type.Optional(Type.Boolean()),
});

export type ExecuteMessage = Static<typeof ExecuteMessage>;

/** Interrupts the cell named by `runId` and nothing else: without effect once that run is over. */
export const InterruptMessage = Type.Object({ type: Type.Literal('interrupt'), runId: Type.String() });

/**
 * First, and only to a kernel that was forked into the sandbox before it was known what for: where it is to work. It
 * answers `ready`, or `unfit` when an interpreter that started there now would not be as it is. The same again until its
 * first cell: that may be long after, so it looks once more then, and may answer `unfit` instead of running it.
 */
export const AssignMessage = Type.Object({
  type: Type.Literal('assign'),
  cwd: Type.String(),
  env: Type.Record(Type.String(), Type.String()),
});

export type AssignMessage = Static<typeof AssignMessage>;

export const ToKernel = Type.Union([ExecuteMessage, InterruptMessage]);
export type ToKernel = Static<typeof ToKernel>;

/**
 * Answers an output that has `sync`, and comes to no kernel that sends none: what was printed before that output has
 * been taken, so what is printed now follows it.
 */
export const SyncedMessage = Type.Object({ type: Type.Literal('synced'), sync: Type.Integer({ minimum: 0 }) });
export type SyncedMessage = Static<typeof SyncedMessage>;

/** Sent once, when the kernel takes its first `execute`. */
export const KernelReady = Type.Object({ type: Type.Literal('ready'), protocolVersion: Type.Integer() });

/** Its pipes are empty: the agent has taken everything that was printed before this, and need not look. */
const Drained = Type.Literal(true);

/**
 * A rich output. `forms` maps a MIME type to its value: text as it is, binary types as base64,
 * `application/json` and `application/vnd.cloche.*+json` as JSON values.
 */
export const KernelOutput = Type.Object({
  type: Type.Literal('output'),
  runId: Type.String(),
  role: Type.Union([Type.Literal('result'), Type.Literal('display')]),
  forms: Type.Record(Type.String(), Type.Unknown()),
  /**
   * A number that `synced` repeats. A kernel that prints on only after that answer keeps prints and outputs in order;
   * printing goes through pipes, which may otherwise overtake this message.
   */
  sync: Type.Optional(Type.Integer({ minimum: 0 })),
  drained: Type.Optional(Drained),
});

export const KernelError = Type.Object({
  name: Type.String(),
  message: Type.String(),
  traceback: Type.Array(Type.String()),
});
export type KernelError = Static<typeof KernelError>;

/** The run is over and everything it printed has been written to the pipes. */
export const KernelDone = Type.Object({
  type: Type.Literal('done'),
  runId: Type.String(),
  executionCount: Type.Integer({ minimum: 0 }),
  error: Type.Optional(KernelError),
  drained: Type.Optional(Drained),
});

/** It ends, and the agent starts a kernel in its place. */
export const KernelUnfit = Type.Object({ type: Type.Literal('unfit'), reason: Type.String() });

export const FromKernel = Type.Union([KernelUnfit, KernelReady, KernelOutput, KernelDone]);
export type FromKernel = Static<typeof FromKernel>;
