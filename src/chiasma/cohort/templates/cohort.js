// Numbers sort as numbers, everything else as text; unknown values come last, either way.
document.addEventListener("click", event => {
  const head = event.target.closest("th");
  if (!head) return;
  const down = head.getAttribute("aria-sort") === "ascending", column = head.cellIndex;
  const body = document.querySelector("tbody"), key = row => row.cells[column].dataset.key;
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return down ? -order : order;
  };
  for (const other of document.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...[...body.rows].sort(compare));
});
document.addEventListener("change", event => {
  document.querySelector("table").classList.toggle("parameters", event.target.checked);
});
