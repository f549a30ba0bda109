import { type Static, Type } from 'typebox';
import { Amount, Ordinal, Word } from './bounded.ts';
import { InstanceUse } from './hostd-protocol.ts';

/** Resources that an instance uses at one moment. The counters of bytes are those of `InstanceUse`. */
export const InstanceMeasurement = Type.Object({
  /** Milliseconds since 1970. */
  at: Amount,
  /** Cores, on average since the measurement before. */
  cpu: Amount,
  /** Memory that the kernel cannot reclaim, without that of the agent. */
  memoryBytes: Amount,
  /** Absent in a moment in which no process shows the disk: the instance is ending. */
  diskBytes: Type.Optional(Amount),
  inodes: Type.Optional(Amount),
  /**
   * Processes and threads, without those of the agent. Absent with gVisor, whose guest processes the host cannot see.
   */
  processes: Type.Optional(Amount),
  egressBytes: InstanceUse.properties.egressBytes,
  ingressBytes: InstanceUse.properties.ingressBytes,
});
export type InstanceMeasurement = Static<typeof InstanceMeasurement>;

export const MeasuredInstance = Type.Object({
  sandboxId: Word,
  generation: Ordinal,
  measurement: InstanceMeasurement,
  /** Bytes that fit on the disk, and its inodes. */
  diskLimitBytes: Type.Optional(Amount),
  inodesLimit: Type.Optional(Amount),
});
export type MeasuredInstance = Static<typeof MeasuredInstance>;
/** Most instances in one request for measurements. */
export const MAX_MEASURED_INSTANCES = 500;
export const MeasuredInstanceList = Type.Object({
  measured: Type.Array(MeasuredInstance, { maxItems: MAX_MEASURED_INSTANCES }),
});

export const MeasureInstances = Type.Object(
  {
    instances: Type.Array(
      Type.Object(
        {
          sandboxId: Type.String({ pattern: '^sbx_[A-Za-z0-9]{1,40}$' }),
          generation: Type.Integer({ minimum: 1, maximum: 999_999_999 }),
        },
        { additionalProperties: false },
      ),
      { maxItems: MAX_MEASURED_INSTANCES },
    ),
  },
  { additionalProperties: false },
);
export type MeasureInstances = Static<typeof MeasureInstances>;

/** `fromMs`: only samples at or after this time, in milliseconds since 1970. */
export const HistoryQuery = Type.Object(
  { fromMs: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })) },
  { additionalProperties: false },
);
export type HistoryQuery = Static<typeof HistoryQuery>;

export const InstanceHistory = Type.Object({
  /** Absent if the instance does not live. */
  now: Type.Optional(MeasuredInstance),
  /**
   * The last hour at intervals of 10 s, oldest first, as far as this hostd has run and the sandbox has had the
   * instance.
   */
  samples: Type.Array(InstanceMeasurement, { maxItems: 1_000 }),
});
export type InstanceHistory = Static<typeof InstanceHistory>;
