"use strict";
// Sorts a table by the column whose head is pressed; pressed again, the other way round. Equal rows keep their order.
document.addEventListener("click", (event) => {
  const button = event.target.closest("th button");
  if (!button) return;
  const head = button.closest("th");
  const column = [...head.parentNode.children].indexOf(head);
  const numeric = head.classList.contains("n");
  const rising = head.ariaSort ? head.ariaSort !== "ascending" : !numeric;
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.ariaSort = rising ? "ascending" : "descending";
  const key = (row) => {
    const cell = row.children[column];
    if (!numeric) return cell.textContent;
    const value = Number(cell.dataset.sort ?? NaN);
    return Number.isNaN(value) ? -Infinity : value; // what is missing is least
  };
  const compare = numeric ? (a, b) => (a < b ? -1 : a > b ? 1 : 0) : (a, b) => a.localeCompare(b, undefined, { numeric: true });
  const body = head.closest("table").tBodies[0];
  const rows = [...body.rows].map((row) => [key(row), row]);
  rows.sort(([a], [b]) => (rising ? compare(a, b) : compare(b, a)));
  body.append(...rows.map(([, row]) => row));
});
