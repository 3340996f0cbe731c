// The steps of a stage as rows of a list.

// Passes with what led to them. Sets of rules are not rows; a rewrite knows in which set it was made.
export function rowsOf(steps) {
  const [rows, sets] = [[], []];
  let inner = [];
  steps.forEach((step, at) => {
    if (step.kind === "rules") sets.push(step);
    else if (step.kind === "done") sets.pop();
    else if (step.kind === "pass") {
      const changes = step.before.length !== step.after.length || step.before.some((id, i) => id !== step.after[i]);
      // its own row first: what it was, then how it came about
      rows.push({ kind: "pass", of: step, step: inner[0]?.step - 0.5 || at, number: at, changes }, ...inner);
      inner = [];
    } else {
      const set = sets.at(-1);
      inner.push({ kind: step.kind, of: step, step: at, number: at, set: set?.set, within: set?.roots ?? [step.before], deep: sets.length });
    }
  });
  return rows.concat(inner);
}
