// Where a node comes from and what it becomes, pass by pass. The server works it out: `Record::lives` of crate kiln.

// {becomes, comesFrom}, each [{pass, step, how, rules, from, to, gone}]: a change each. If the node is no more, `to` is null
// and `gone` says what is in its place.
// `owner` is whose steps these rows are: {schedule: 3} or {kernel: 2}. `at` is the row of the pass whose graph has the node.
export async function life(owner, rows, at, node) {
  const query = new URLSearchParams({ ...owner, step: rows[at]?.number ?? 0, node });
  const answer = await fetch(`/life?${query}`);
  const { becomes, comes_from: comesFrom } = answer.ok ? await answer.json() : { becomes: [], comes_from: [] };
  const placed = placer(rows);
  return { becomes: becomes.map(placed), comesFrom: comesFrom.map(placed) };
}

// A change with the rows that it names by numbers of steps.
function placer(rows) {
  const byNumber = new Map(rows.map((row) => [row.number, row]));
  const rule = (number) => {
    const row = byNumber.get(number);
    return { ...row.of, step: row.step };
  };
  return (change) => {
    const row = byNumber.get(change.step);
    return { ...change, pass: `${row.of.stage} / ${row.of.pass}`, step: row.step, rules: change.rules.map(rule) };
  };
}
