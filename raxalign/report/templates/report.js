"use strict";
// What the page can do with a script: choose a matrix, sort and filter tables, copy them. Without
// one, all matrices are shown and the tables stand as they are.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const made = (name, text, parent) => {
    const element = document.createElement(name);
    element.textContent = text;
    parent.append(element);
    return element;
  };
  const plain = (element, part) => (element.querySelector(part)?.textContent ?? "").trim();

  const matrices = all(".matrix");
  if (matrices.length > 1) {
    const label = document.createElement("label");
    label.className = "picker";
    label.textContent = "Task and metric ";
    const list = made("select", "", label);
    matrices.forEach((matrix, place) => {
      made("option", plain(matrix, "b").replace(/\.$/, ""), list).value = String(place);
    });
    const show = (place) => matrices.forEach((matrix, other) => { matrix.hidden = place !== other; });
    const linked = () => {
      const place = matrices.findIndex((matrix) => `#${matrix.id}` === location.hash);
      if (place >= 0) { list.value = String(place); show(place); }
    };
    list.addEventListener("change", () => show(Number(list.value)));
    addEventListener("hashchange", linked);
    matrices[0].before(label);
    show(0);
    linked();
  }

  // what is folded is open on paper, also where the style sheet cannot open it
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    for (const folded of opened) folded.open = true;
  });
  addEventListener("afterprint", () => {
    for (const folded of opened) folded.open = false;
  });

  // a cell's number, or null where it has none
  const value = (cell) => {
    const text = (plain(cell, ".v") || cell.firstChild?.textContent || "").trim();
    const number = Number(text.replace("−", "-").replaceAll(",", ""));
    return text === "" || Number.isNaN(number) ? null : number;
  };
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x !== null && y !== null) return x - y;
    if (x === null && y === null) return a.textContent.localeCompare(b.textContent);
    return x === null ? -1 : 1;
  };
  const sort = (body, column, sign) => {
    const blocks = [[]];
    for (const row of [...body.rows]) {
      if (row.classList.contains("group")) blocks.push([row]);
      else blocks.at(-1).push(row);
    }
    for (const block of blocks) {
      const heading = block[0]?.classList.contains("group") ? [block.shift()] : [];
      block.sort((a, b) => sign * order(a.cells[column], b.cells[column]));
      body.append(...heading, ...block);
    }
  };
  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === (column ? "descending" : "ascending");
        const sign = (column ? -1 : 1) * (down ? -1 : 1);
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        sort(table.tBodies[0], column, sign);
      });
    });
  };

  // a table as rows of texts: the name, and per column the value, its interval and its difference
  const PARTS = [[".v", ""], [".s", " 95 % CI"], [".d", " difference"]];
  // in a matrix the interval is that of the difference, but for the baselines' own
  const JUDGED = [[".v", ""], [".d", " difference"], [".s:not(.own)", " difference 95 % CI"], [".w", " verdict"]];
  const partsOf = (table) => (table.closest(".matrix") ? JUDGED : PARTS);
  const rows = (table, parts) => {
    const body = [...table.tBodies[0].rows].filter((row) => !row.classList.contains("group"));
    const heads = [...table.tHead.rows[0].cells].slice(1);
    const columns = heads.flatMap((head, place) => parts
      .filter(([part], first) => first === 0 || body.some((row) => plain(row.cells[place + 1], part)))
      .map(([part, name]) => ({ place: place + 1, part, name: head.textContent.trim() + name })));
    const label = (row) => [...row.cells[0].childNodes]
      .map((node) => (node.nodeName === "SMALL" ? ` (${node.textContent})` : node.nodeName === "SUP" ? "" : node.textContent))
      .join("").trim();
    return [
      [table.tHead.rows[0].cells[0].textContent.trim(), ...columns.map((column) => column.name)],
      ...body.filter((row) => !row.hidden).map((row) => [
        label(row), ...columns.map(({ place, part }) => plain(row.cells[place], part)),
      ]),
    ];
  };
  const csv = (table) => rows(table, partsOf(table))
    .map((row) => row.map((text) => {
      const ascii = text.replaceAll("−", "-");
      return /[",\n]/.test(ascii) ? `"${ascii.replaceAll('"', '""')}"` : ascii;
    }).join(",")).join("\n") + "\n";
  const SIGNS = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "−": "$-$",
    "±": "$\\pm$", "λ": "$\\lambda$", "α": "$\\alpha$", "ρ": "$\\rho$", "–": "--" };
  const tex = (text) => text.replace(/[\\&%$#_{}~^−±–]|(?<!\p{L})[λαρ](?!\p{L})/gu, (sign) => SIGNS[sign] ?? `\\${sign}`);
  const latex = (table) => {
    const [head, ...body] = rows(table, partsOf(table).slice(0, table.closest(".matrix") ? 3 : 2));
    const lines = [head, ...body].map((row) => `${row.map(tex).join(" & ")} \\\\`);
    return ["\\begin{tabular}{l" + "r".repeat(head.length - 1) + "}", "\\toprule", lines[0], "\\midrule",
      ...lines.slice(1), "\\bottomrule", "\\end{tabular}", ""].join("\n");
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // pages that are opened as files may have no clipboard
      const field = made("textarea", text, document.body);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
  };
  const copier = (name, text, tools, element, title = `Copy the table as ${name}`) => {
    const button = made("button", name, tools);
    button.type = "button";
    button.title = title;
    button.addEventListener("click", async () => {
      await copy(text(element));
      button.textContent = "copied";
      setTimeout(() => { button.textContent = name; }, 1200);
    });
  };
  const filter = (table, tools) => {
    const field = made("input", "", tools);
    field.type = "search";
    field.placeholder = "filter rows";
    field.setAttribute("aria-label", "Filter the rows of the table");
    field.addEventListener("input", () => {
      const asked = field.value.toLowerCase();
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(asked);
      }
    });
  };
  for (const table of all("table")) {
    sortable(table);
    const tools = document.createElement("div");
    tools.className = "tools";
    if (table.tBodies[0].rows.length > 8) filter(table, tools);
    copier("CSV", csv, tools, table);
    copier("LaTeX", latex, tools, table);
    table.parentElement.after(tools);
  }
  for (const listing of all(".listing pre")) {
    const tools = made("p", "", listing.parentElement);
    tools.className = "tools";
    copier("Copy", (element) => element.textContent, tools, listing, "Copy this text");
  }
})();
