// Diffs as they are recorded.

/** The rows of a unified diff, as of `linesBetween`: its head is not a change. */
export function rowsOfDiff(diff) {
  const rows = [];
  let [left, right] = [0, 0];
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    const sign = line.charAt(0);
    if (head) {
      [left, right] = [Number(head[1]), Number(head[2])];
      rows.push(['@', null, null, line]);
    } else if (rows.length && '+- \\'.includes(sign)) {
      rows.push([sign, '- '.includes(sign) ? left++ : null, '+ '.includes(sign) ? right++ : null, line.slice(1)]);
    }
  }
  return rows;
}
