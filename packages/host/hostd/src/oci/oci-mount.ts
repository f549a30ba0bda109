/** A mount of a container, as the OCI runtime specification defines it. */
export interface OciMount {
  destination: string;
  type: string;
  source: string;
  options: string[];
}
