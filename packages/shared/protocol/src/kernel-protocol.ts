/**
 * Agent ↔ kernel: frames on the kernel's private descriptor.
 *
 * The kernel starts with one end of a stream socket as descriptor 3. Before the first cell, it moves the descriptor out
 * of reach of user code (high number, close-on-exec). A frame is a 4-byte big-endian length and that many bytes of
 * UTF-8 JSON. Standard output and error are pipes that the agent reads itself. They are never framed, so user code
 * cannot print a fake message.
 */
import { type Static, Type } from 'typebox';
import { Count, Environment, mapOf, Path, Word } from './bounded.ts';
import { MAX_KERNEL_FRAME_BYTES } from './kernel-constants.ts';

/** A frame bounds its texts; the agent cuts those that it passes on. */
const FrameText = Type.String({ maxLength: MAX_KERNEL_FRAME_BYTES });
/** Most forms of one output. */
const MAX_FORMS = 1_000_000;

/** Runs `code` as the next cell. The agent queues, so a kernel gets one at a time. */
export const ExecuteMessage = Type.Object({
  type: Type.Literal('execute'),
  runId: Word,
  code: FrameText,
  /** A message of a client, to answer in place of running `code`. A kernel that has no messages runs the code. */
  message: Type.Optional(FrameText),
  /** Whether this is a warm-up run before the first cell, which makes that one faster and leaves no trace. */
  warmUp: Type.Optional(Type.Boolean()),
});

export type ExecuteMessage = Static<typeof ExecuteMessage>;

/** Interrupts only the cell named by `runId`; does nothing when that run is over. */
export const InterruptMessage = Type.Object({ type: Type.Literal('interrupt'), runId: Word });

/**
 * The first message to a kernel that was forked into the sandbox ahead of demand: its working directory and
 * environment. The kernel answers `ready`, or `unfit` when an interpreter started there now would differ from it. It
 * checks again before its first cell, which may be much later, and may then answer `unfit` instead of running the cell.
 */
export const AssignMessage = Type.Object({
  type: Type.Literal('assign'),
  cwd: Path,
  env: Environment,
});

export type AssignMessage = Static<typeof AssignMessage>;

/**
 * A message of a client. To the kernel: the answer to one that the run has sent, and dropped if the run does not wait
 * for it. From the kernel: what a run that has a message tells the client, in order with its outputs. Only the kernel
 * and the client know what the text means.
 */
export const ClientMessage = Type.Object({
  type: Type.Literal('message'),
  runId: Word,
  message: FrameText,
});

export const ToKernel = Type.Union([ExecuteMessage, InterruptMessage, ClientMessage]);
export type ToKernel = Static<typeof ToKernel>;

/**
 * Answers an output that has `sync`; never sent to a kernel that sends no `sync`. Everything printed before that output
 * has been read, so later prints follow it.
 */
export const SyncedMessage = Type.Object({ type: Type.Literal('synced'), sync: Count });
export type SyncedMessage = Static<typeof SyncedMessage>;

/** Sent once, when the kernel accepts its first `execute`. */
export const KernelReady = Type.Object({ type: Type.Literal('ready'), protocolVersion: Count });

/**
 * Whether the kernel's pipes are empty: the agent has read everything printed before this message and need not check.
 */
const Drained = Type.Literal(true);

/**
 * A rich output. `forms` maps a MIME type to its value: text unchanged, binary types as base64, `application/json` and
 * `application/vnd.cloche.*+json` as JSON values, whose levels and number the reader of a frame bounds.
 */
export const KernelOutput = Type.Object({
  type: Type.Literal('output'),
  runId: Word,
  role: Type.Union([Type.Literal('result'), Type.Literal('display')]),
  forms: mapOf(Type.Unknown(), MAX_FORMS, MAX_KERNEL_FRAME_BYTES),
  /**
   * Number that `synced` repeats. A kernel that waits for that answer before it prints again keeps prints and outputs
   * in order; prints go through pipes and could otherwise overtake this message.
   */
  sync: Type.Optional(Count),
  drained: Type.Optional(Drained),
});

export const KernelError = Type.Object({
  name: FrameText,
  message: FrameText,
  traceback: Type.Array(FrameText, { maxItems: 1_000_000 }),
});
export type KernelError = Static<typeof KernelError>;

/** See `ClientMessage`. */
export const KernelMessage = Type.Object({
  ...ClientMessage.properties,
  sync: Type.Optional(Count),
  drained: Type.Optional(Drained),
});

/** The run has ended, and everything that it printed has been written to the pipes. */
export const KernelDone = Type.Object({
  type: Type.Literal('done'),
  runId: Word,
  executionCount: Count,
  error: Type.Optional(KernelError),
  drained: Type.Optional(Drained),
});

/** The kernel ends, and the agent starts another one instead. */
export const KernelMismatch = Type.Object({ type: Type.Literal('unfit'), reason: FrameText });

export const FromKernel = Type.Union([KernelMismatch, KernelReady, KernelOutput, KernelMessage, KernelDone]);
export type FromKernel = Static<typeof FromKernel>;
