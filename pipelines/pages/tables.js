"use strict";
// Sorts a table by the column whose head is pressed; pressed again, the other way round. Equal rows keep their order.
const sort = (button) => {
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
};
// Copies the code above a button, or selects it where the browser does not let a page copy.
const copy = async (button) => {
  const code = button.parentNode.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
  }
};
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.closest("th")) sort(button);
  if (button?.classList.contains("copy")) copy(button);
});
// Shows the examples with the chosen label only, also those that were folded away.
document.addEventListener("change", (event) => {
  const choice = event.target.closest("select.examples");
  if (!choice) return;
  for (const example of document.querySelectorAll("[data-labels]")) {
    example.hidden = choice.value !== "" && !example.dataset.labels.split(" ").includes(choice.value);
  }
  for (const group of document.querySelectorAll(".examples-of")) {
    group.hidden = !group.querySelector("[data-labels]:not([hidden])");
    for (const rest of group.querySelectorAll("details")) {
      rest.open = choice.value !== "";
      rest.hidden = !rest.querySelector("[data-labels]:not([hidden])");
    }
  }
});
