// Why a text has its gold.

function signed(value) {
  return `${value > 0 ? "+" : ""}${written(value)}`;
}

/** The gold of a text, and what it has it for: each kind once with its points. */
function pointsOf(text) {
  const kinds = new Map(); // Map.groupBy is younger than some browsers
  for (const part of gold.points(text).flatMap(({ why }) => why)) {
    const kind = part[0].split(":")[0];
    kinds.set(kind, [...(kinds.get(kind) ?? []), part]);
  }
  const reasons = [...kinds].map(([kind, some]) => {
    const points = some.reduce((sum, [, one]) => sum + one, 0);
    return `${signed(points)} ${some.length > 1 ? `${kind}, ${some.length} times` : some[0][0]}`;
  });
  return `gold ${written(gold(text))}: ${reasons.join(" · ") || "no opinion"}`;
}
