// SPDX-License-Identifier: Apache-2.0
// The page around the charts: sorting, theme, downloads.
"use strict";

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function makeSortable(table) {
  table.querySelectorAll("thead button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const header = button.closest("th"), body = table.tBodies[0];
      const rising = header.getAttribute("aria-sort") === "descending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const numeric = [...body.rows].every((row) => key(row) === "" || !Number.isNaN(Number(key(row))));
      const compare = (a, b) => {
        if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === ""); // missing values stay last
        const order = numeric ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b), "en", { numeric: true });
        return rising ? order : -order;
      };
      body.replaceChildren(...[...body.rows].sort(compare));
    });
  });
}

function makeTools(figure, chart, title) {
  const tools = figure.querySelector(".tools");
  const add = (text, label, action) => {
    const button = document.createElement("button");
    button.textContent = text;
    button.setAttribute("aria-label", `${label}: ${title}`);
    button.addEventListener("click", action);
    tools.appendChild(button);
    return button;
  };
  if (chart.spec.time) {
    const reset = add("Whole run", "Show the whole run", () => { chart.view = null; });
    reset.className = "reset";
    reset.hidden = true;
  }
  add("SVG", "Save as SVG", () => download(`${chart.spec.id}.svg`, "image/svg+xml", chart.standalone()));
  add("CSV", "Save the data", () => download(`${chart.spec.id}.csv`, "text/csv", chart.csv()));
}

// Says of tables that are wider than the page that they can be scrolled, and lets the keyboard do it.
function hintAtScrolling() {
  for (const area of document.querySelectorAll(".scroll")) {
    const wide = area.scrollWidth > area.clientWidth + 1, hinted = area.nextElementSibling?.classList.contains("hint");
    if (wide && !hinted) {
      const hint = document.createElement("p");
      hint.className = "hint";
      hint.textContent = "more columns: scroll sideways \u2192";
      area.after(hint);
      area.tabIndex = 0;
      area.setAttribute("role", "group");
      area.setAttribute("aria-label", "Table, wider than the page");
    } else if (!wide && hinted) {
      area.nextElementSibling.remove();
      area.removeAttribute("tabindex");
      area.removeAttribute("role");
      area.removeAttribute("aria-label");
    }
  }
}

function start() {
  const timeline = new Timeline();
  for (const spec of JSON.parse(document.getElementById("charts").textContent)) {
    const figure = document.getElementById(spec.id);
    const chart = new Chart(figure, spec, timeline);
    if (spec.time) timeline.charts.push(chart);
    makeTools(figure, chart, spec.title);
  }
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  hintAtScrolling();
  addEventListener("resize", hintAtScrolling);
  const theme = document.getElementById("theme"), root = document.documentElement;
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  root.dataset.ready = "yes";
}

start();
