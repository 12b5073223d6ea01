"use strict";
{
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  root.classList.add("js");

  // Theme: as the system has it, or one of the two.
  const themes = { "": "as the system", light: "light", dark: "dark" };
  const theme = document.getElementById("theme");
  const wear = (name) => {
    name ? root.setAttribute("data-theme", name) : root.removeAttribute("data-theme");
    theme.textContent = `Theme: ${themes[name]}`;
  };
  theme.addEventListener("click", () => {
    const names = Object.keys(themes);
    const next = (names.indexOf(root.dataset.theme ?? "") + 1) % names.length;
    wear(names[next]);
    try { localStorage.setItem("pmn-bench theme", names[next]); } catch { /* not kept, then */ }
  });
  try {
    const kept = localStorage.getItem("pmn-bench theme");
    if (kept in themes) wear(kept);
  } catch { /* a page from disk may have no storage */ }

  // Strategies: hidden here, hidden everywhere.
  const boxes = all("[data-toggle]");
  const show = (box) => {
    for (const item of all(`main [data-s="${box.dataset.toggle}"]`)) {
      item.classList.toggle("off", !box.checked);
    }
  };
  for (const box of boxes) box.addEventListener("change", () => show(box));
  for (const button of all("[data-all]")) {
    button.addEventListener("click", () => {
      for (const box of boxes) { box.checked = Boolean(button.dataset.all); show(box); }
    });
  }

  const save = (name, text, kind) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // What a cell counts as: the number that it begins with, else its text; nothing comes last.
  const value = (text) => {
    const begin = /^<?[+\-−]?[\d,]*\.?\d+(e[+-]?\d+)?/.exec(text);
    return begin ? Number(begin[0].replace(/[<,]/g, "").replace("−", "-")) : text.toLowerCase();
  };
  const order = (a, b) => {
    if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
    return typeof a === "number" ? -1 : 1;
  };
  // A spreadsheet must not take a name for a formula.
  const field = (text) => {
    const safe = /^[=+\-@\t\r]/.test(text) && typeof value(text) === "string" ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };

  for (const part of all("[data-table]")) {
    const table = part.querySelector("table");
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      head.setAttribute("aria-sort", "none");
      head.querySelector("button").addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keyed = [...body.rows].map((row) => [row.cells[place].textContent.trim(), row]);
        const known = keyed.filter(([text]) => text).map(([text, row]) => [value(text), row]);
        known.sort(([a], [b]) => (up ? order(a, b) : order(b, a)));
        body.append(...known.map(([, row]) => row), ...keyed.filter(([t]) => !t).map(([, r]) => r));
      });
    });
    const count = part.querySelector("output");
    part.querySelector("input").addEventListener("input", ({ target }) => {
      const words = target.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        left += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? `${left} of ${body.rows.length} rows` : "";
    });
    const csv = part.querySelector(".csv");
    csv.addEventListener("click", () => {
      const rows = [table.tHead.rows[0], ...body.rows].map((row) =>
        [...row.cells].map((cell) => field(cell.textContent.trim())).join(","));
      save(`${csv.dataset.name}.csv`, `${rows.join("\r\n")}\r\n`, "text/csv");
    });
  }

  // A drawing alone has no style sheet: take along what it looks like now.
  const kept = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "display"];
  for (const button of all(".save")) {
    button.addEventListener("click", () => {
      const drawing = button.parentElement.querySelector("svg");
      const copy = drawing.cloneNode(true);
      const copies = [copy, ...all("*", copy)];
      [drawing, ...all("*", drawing)].forEach((element, place) => {
        const look = getComputedStyle(element);
        for (const name of kept) copies[place].style.setProperty(name, look.getPropertyValue(name));
      });
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
      copy.style.background = getComputedStyle(document.body).backgroundColor;
      save(`${button.dataset.name}.svg`, new XMLSerializer().serializeToString(copy), "image/svg+xml");
    });
  }
}
