export interface Owner {
  readonly uid: number;
  readonly gid: number;
}
