export interface EventTables {
  event_sequences: EventSequenceTable;
  events: EventTable;
}

/** The number of the last event of each organization. */
export interface EventSequenceTable {
  org_id: string;
  last_seq: number;
}

export interface EventTable {
  org_id: string;
  /** Numbers the events of an organization without gaps, in the order of their commits. */
  seq: number;
  id: string;
  type: string;
  at: number;
  /** Null if the event belongs to no project. */
  project_id: string | null;
  /** JSON of the resource, as its operation returns it. */
  data: string;
}
