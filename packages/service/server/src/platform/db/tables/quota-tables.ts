export interface QuotaTables {
  quota_refusals: QuotaRefusalTable;
  request_counts: RequestCountTable;
}

/** When an event last reported refusals by a quota. */
export interface QuotaRefusalTable {
  /** Id of the project of the refused request, or of its organization. */
  scope_id: string;
  quota: string;
  announced_at: number;
}

/** Requests of a limited organization or project in one second that a server received. */
export interface RequestCountTable {
  scope_id: string;
  /** Seconds since the epoch. */
  second: number;
  process_id: string;
  requests: number;
}
