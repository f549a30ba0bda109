/** Reads the queries of the dashboard and of the alert rules in `deploy/monitoring`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parser } from '@prometheus-io/lezer-promql';
import { parse as parseYaml } from 'yaml';

const FOLDER = join(import.meta.dirname, '..', 'deploy', 'monitoring');
/** Grafana replaces these before it sends a query. */
const VARIABLES: Readonly<Record<string, string>> = { $__rate_interval: '5m', $job: 'cloche' };

export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly runbook: string };
}

export interface Query {
  /** The panel or alert that makes it. */
  readonly of: string;
  readonly expr: string;
}

/** A metric that a query reads, with the labels that the query names in selectors and aggregations. */
export interface Selection {
  readonly metric: string;
  readonly labels: readonly string[];
}

export function readAlerts(): readonly Alert[] {
  const { groups }: { groups: { rules: Alert[] }[] } = parseYaml(readFileSync(join(FOLDER, 'alerts.yml'), 'utf8'));
  return groups.flatMap(({ rules }) => rules);
}

export function readQueries(): readonly Query[] {
  const { panels }: { panels: { title: string; targets?: { expr: string }[] }[] } = JSON.parse(
    readFileSync(join(FOLDER, 'dashboard.json'), 'utf8'),
  );
  const shown = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ of: title, expr })));
  return [...readAlerts().map(({ alert, expr }) => ({ of: alert, expr })), ...shown].map(({ of, expr }) => ({
    of,
    expr: expr.replace(/\$\w+/g, (name) => VARIABLES[name] ?? name),
  }));
}

/** @throws Error for a query that is not PromQL */
export function selectionsOf(expr: string): readonly Selection[] {
  const selections: { metric: string; labels: string[]; to: number }[] = [];
  const groupings: { labels: string[]; from: number; to: number }[] = [];
  parser.parse(expr).iterate({
    enter({ type, from, to, node }) {
      const text = expr.slice(from, to);
      if (type.isError) throw new Error(`not PromQL at ${from}: ${expr}`);
      if (type.name === 'VectorSelector') {
        const metric = /^[a-zA-Z_:][\w:]*/.exec(text)?.[0] ?? '';
        const matchers = node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
        const labels = matchers.flatMap((matcher) => matcher.getChildren('LabelName'));
        selections.push({ metric, labels: labels.map((label) => expr.slice(label.from, label.to)), to });
      }
      if (type.name === 'GroupingLabels') {
        const labels = node.getChildren('LabelName').map((label) => expr.slice(label.from, label.to));
        const parent = node.parent?.parent;
        if (parent) groupings.push({ labels, from: parent.from, to: parent.to });
      }
    },
  });
  return selections.map(({ metric, labels, to }) => ({
    metric,
    labels: [...labels, ...groupings.filter((one) => one.from < to && to <= one.to).flatMap((one) => one.labels)],
  }));
}
